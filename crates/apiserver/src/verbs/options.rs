//! Parameters that writes have in common, checked before anything else is.

use super::Call;
use crate::field::{Invalid, Reason};
use crate::http::query::Query;
use crate::patch::APPLY;
use crate::status::Status;

/// The longest name of somebody who sets fields.
pub const MANAGER_MAX: usize = 128;

/// What to do about fields the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Upstream's names of the parameters of each verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    Patch,
}

impl Verb {
    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch => "PatchOptions",
        }
    }
}

pub fn check(call: &Call, verb: Verb) -> Result<(), Status> {
    let query = &call.query;
    let mut errors = Vec::new();
    if verb == Verb::Patch {
        let apply = call.content_type == APPLY;
        if apply && query.get("fieldManager").is_empty() {
            errors.push(Invalid::required("fieldManager", "is required for apply patch"));
        }
        if !apply && query.has("force") {
            errors.push(Invalid::forbidden("force", "may not be specified for non-apply patch"));
        }
    }
    errors.extend(manager_errors("fieldManager", query.get("fieldManager")));
    errors.extend(dry_run_errors(&query.all("dryRun")));
    if field_validation(query).is_none() {
        let given = query.get("fieldValidation");
        errors.push(Invalid::not_supported("fieldValidation", given, &["", "Ignore", "Strict", "Warn"]));
    }
    refuse(verb.kind(), &errors)
}

/// Options have a group of their own, whatever they are for.
pub fn refuse(kind: &str, errors: &[Invalid]) -> Result<(), Status> {
    match errors {
        [] => Ok(()),
        errors => Err(Status::invalid("meta.k8s.io", kind, "", errors)),
    }
}

pub fn dry_run_errors(values: &[&str]) -> Option<Invalid> {
    let known = values.iter().all(|value| *value == "All");
    (!known).then(|| Invalid::not_supported("dryRun", values.to_vec(), &["All"]))
}

pub fn manager_errors(field: &str, name: &str) -> Vec<Invalid> {
    if name.len() > MANAGER_MAX {
        // Upstream goes on, and each error shows the whole name: a body of such a name would be answered with terabytes.
        return vec![Invalid {
            reason: Reason::TooLong,
            field: field.into(),
            value: None,
            detail: format!("may not be more than {MANAGER_MAX} bytes"),
        }];
    }
    let unprintable = name.char_indices().filter(|(_, character)| !is_print(*character));
    let refused = |(position, character)| {
        let why = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
        Invalid::invalid(field, name, why)
    };
    unprintable.map(refused).collect()
}

/// What Go calls printable, as near as the standard library knows it.
pub fn is_print(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace())
}

/// `None` for a word that means nothing.
pub fn field_validation(query: &Query) -> Option<FieldValidation> {
    match query.get("fieldValidation") {
        "Ignore" => Some(FieldValidation::Ignore),
        "" | "Warn" => Some(FieldValidation::Warn),
        "Strict" => Some(FieldValidation::Strict),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_not_looked_into() {
        let told = |name: &str| -> Vec<String> {
            manager_errors("fieldManager", name).iter().map(ToString::to_string).collect()
        };
        let why = "invalid character U+0001 (at position 1)";
        assert_eq!(told("a\u{1}b"), [format!("fieldManager: Invalid value: \"a\\x01b\": {why}")]);
        assert_eq!(told(&"\u{7}".repeat(MANAGER_MAX)).len(), MANAGER_MAX);
        let long = told(&"\u{7}".repeat(MANAGER_MAX + 1));
        assert_eq!(long, ["fieldManager: Too long: may not be more than 128 bytes"]);
    }
}
