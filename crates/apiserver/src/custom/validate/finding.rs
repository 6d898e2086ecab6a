//! One thing that is wrong with a value, before it becomes an error of its object.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{Invalid, Reason};

/// An answer that lists more than this helps nobody.
pub const FINDINGS_MAX: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Relative to the value that is validated.
    path: String,
    what: What,
    /// Findings with the same text are one.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Required,
    Type(Value),
    Enum {
        value: Value,
        allowed: Vec<String>,
    },
    TooLong(i64),
    TooMany {
        actual: i64,
        max: i64,
    },
    Other(Value),
    /// About a combination of schemas; upstream does not say of which field.
    Whole,
}

impl Finding {
    pub fn new(path: &str, what: What, text: String) -> Self {
        Self { path: path.to_owned(), what, text }
    }

    /// `prefix` is where the validated value stands; empty at the root.
    pub fn into_invalid(self, prefix: &str) -> Invalid {
        let name = self.path.strip_prefix('.').unwrap_or(&self.path);
        let field = match (prefix, name) {
            // Upstream prints the path that it does not have.
            ("", "") => "<nil>".to_owned(),
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => format!("{prefix}.{name}"),
        };
        let make = |reason, value, detail| Invalid { reason, field: field.clone(), value, detail };
        match self.what {
            What::Required => make(Reason::Required, None, String::new()),
            What::Type(value) => make(Reason::TypeInvalid, Some(value), self.text),
            What::Enum { value, allowed } => {
                let allowed: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
                let detail = format!("supported values: {}", allowed.join(", "));
                make(Reason::NotSupported, Some(value), detail)
            }
            What::TooLong(max) => make(Reason::TooLong, None, format!("may not be more than {max} bytes")),
            What::TooMany { actual, max } => {
                let detail = format!("must have at most {max} item{}", if max == 1 { "" } else { "s" });
                make(Reason::TooMany, Some(actual.into()), detail)
            }
            What::Other(value) => make(Reason::Invalid, Some(value), self.text),
            What::Whole => {
                let field = if prefix.is_empty() { "<nil>" } else { prefix };
                Invalid::invalid(field, "", self.text)
            }
        }
    }
}

/// What validation found, and how much of the schema the value matched.
#[derive(Debug, Default)]
pub struct Outcome {
    pub findings: Vec<Finding>,
    texts: HashSet<String>,
    pub matches: u32,
}

impl Outcome {
    pub fn of(finding: Finding) -> Self {
        let mut out = Self::default();
        out.add(finding);
        out
    }

    pub fn matched() -> Self {
        Self { matches: 1, ..Self::default() }
    }

    pub fn is_valid(&self) -> bool {
        self.findings.is_empty()
    }

    pub fn count(&mut self) {
        self.matches = self.matches.saturating_add(1);
    }

    pub fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX && self.texts.insert(finding.text.clone()) {
            self.findings.push(finding);
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.matches = self.matches.saturating_add(other.matches);
        other.findings.into_iter().for_each(|finding| self.add(finding));
    }
}
