//! `metadata.name=x,spec.nodeName!=y`: selectors on the few fields a kind offers.

use crate::registry::Kind;
use crate::status::Status;
use crate::store::Stored;

#[derive(Debug)]
pub struct Requirement {
    label: String,
    value: String,
    equal: bool,
}

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

impl Requirement {
    pub fn matches(&self, object: &Stored, kind: &dyn Kind) -> bool {
        let value = match self.label.as_str() {
            NAME => &object.key.name,
            NAMESPACE => &object.key.namespace,
            label => {
                let fields = object.fields(|json| kind.field_labels(json).unwrap_or_default());
                let found = fields.iter().find(|(known, _)| *known == label);
                found.map_or("", |(_, value)| value)
            }
        };
        (value == self.value) == self.equal
    }
}

pub fn parse(text: &str, kind: &dyn Kind) -> Result<Vec<Requirement>, Status> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| requirement(part, kind)).collect()
}

fn requirement(text: &str, kind: &dyn Kind) -> Result<Requirement, Status> {
    let (label, value, equal) = if let Some((label, value)) = text.split_once("!=") {
        (label, value, false)
    } else if let Some((label, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (label, value, true)
    } else {
        let why = format!("invalid selector: '{text}'; can't understand '{text}'");
        return Err(Status::bad_request(why));
    };
    let own = &kind.info().field_labels;
    if label != NAME && label != NAMESPACE && !own.iter().any(|known| known == label) {
        let why = if own.is_empty() {
            format!("{label:?} is not a known field selector: only {NAME:?}, {NAMESPACE:?}")
        } else {
            format!("field label not supported: {label}")
        };
        return Err(Status::bad_request(why));
    }
    Ok(Requirement { label: label.to_owned(), value: value.to_owned(), equal })
}
