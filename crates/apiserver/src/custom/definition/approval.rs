//! Groups of the Kubernetes community are not anybody's: a definition in one says who approved it.

use bowline_api::keys::API_APPROVED;
use http::Uri;

use super::Metadata;
use crate::field::Invalid;

const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    Missing,
    Invalid,
    Approved(String),
    Bypassed(String),
}

pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

pub fn of(metadata: &Metadata) -> Approval {
    let text = metadata.annotations.get(API_APPROVED).map_or("", String::as_str);
    let address = text.parse::<Uri>().is_ok_and(|uri| uri.host().is_some() && uri.scheme().is_some());
    match text {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed(text.to_owned()),
        text if address => Approval::Approved(text.to_owned()),
        _ => Approval::Invalid,
    }
}

/// An update that leaves the approval as it was is not held to it.
pub fn errors(group: &str, new: &Metadata, old: Option<&Metadata>) -> Vec<Invalid> {
    let state = of(new);
    let unchanged = old.is_some_and(|old| std::mem::discriminant(&of(old)) == std::mem::discriminant(&state));
    if !is_protected(group) || unchanged {
        return Vec::new();
    }
    let field = format!("metadata.annotations[{API_APPROVED}]");
    let text = new.annotations.get(API_APPROVED).map_or("", String::as_str);
    match state {
        Approval::Missing => vec![Invalid::required(field, missing_text())],
        Approval::Invalid => vec![Invalid::invalid(field, text, invalid_text())],
        Approval::Approved(_) | Approval::Bypassed(_) => Vec::new(),
    }
}

pub fn missing_text() -> String {
    format!("protected groups must have approval annotation {API_APPROVED:?}, {SEE}")
}

pub fn invalid_text() -> String {
    format!(
        "protected groups must have approval annotation {API_APPROVED:?} with either a URL or a reason starting with \"unapproved\", {SEE}"
    )
}
