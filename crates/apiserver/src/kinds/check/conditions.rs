//! Conditions of the common kind, `metav1.Condition`.

use bowline_api::name::qualified_name_errors;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{one_of, too_long};
use crate::field::Invalid;

const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON_MAX: usize = 1 << 10;
const MESSAGE_MAX: usize = 32 << 10;
const BAD_REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

pub fn errors(field: &str, conditions: &[Condition]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = format!("{field}[{index}]");
        if conditions[..index].iter().any(|earlier| earlier.type_ == condition.type_) {
            errors.push(Invalid::duplicate(format!("{at}.type"), condition.type_.as_str()));
        }
        errors.extend(one_errors(&at, condition));
    }
    errors
}

fn one_errors(at: &str, condition: &Condition) -> Vec<Invalid> {
    let bad_type = |why| Invalid::invalid(format!("{at}.type"), condition.type_.as_str(), why);
    let mut errors: Vec<Invalid> =
        qualified_name_errors(&condition.type_).into_iter().map(bad_type).collect();
    errors.extend(one_of(&format!("{at}.status"), &condition.status, &STATUSES));
    if let Some(generation) = condition.observed_generation.filter(|generation| *generation < 0) {
        let text = "must be greater than or equal to zero";
        errors.push(Invalid::invalid(format!("{at}.observedGeneration"), generation, text));
    }
    let reason = condition.reason.as_str();
    match reason {
        "" => errors.push(Invalid::required(format!("{at}.reason"), "")),
        _ if !is_reason(reason) => errors.push(Invalid::invalid(format!("{at}.reason"), reason, BAD_REASON)),
        _ => {}
    }
    if reason.len() > REASON_MAX {
        errors.push(too_long(format!("{at}.reason"), REASON_MAX));
    }
    if condition.message.len() > MESSAGE_MAX {
        errors.push(too_long(format!("{at}.message"), MESSAGE_MAX));
    }
    errors
}

fn is_reason(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b',' | b':');
    let last = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    text.bytes().all(inner)
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && text.as_bytes().last().is_some_and(last)
}
