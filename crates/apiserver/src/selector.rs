//! Label and field selectors of list, watch and deletecollection.

mod field;
mod label;
mod lexer;

use crate::registry::Kind;
use crate::status::Status;
use crate::store::Stored;

pub use field::of_name;

/// What a client wants to see.
#[derive(Debug, Default)]
pub struct Selector {
    labels: Vec<label::Requirement>,
    fields: Vec<field::Requirement>,
}

impl Selector {
    /// Parses both query parameters for a kind.
    pub fn parse(labels: &str, fields: &str, kind: &dyn Kind) -> Result<Self, Status> {
        Ok(Self { labels: label::parse(labels)?, fields: field::parse(fields, kind)? })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, object: &Stored, kind: &dyn Kind) -> bool {
        (self.labels.is_empty() || self.labels.iter().all(|wanted| wanted.matches(object.labels())))
            && self.fields.iter().all(|wanted| wanted.matches(object, kind))
    }
}
