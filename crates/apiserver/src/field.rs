//! Field errors, phrased as upstream phrases them.

use std::fmt;

use serde_json::Value;

use crate::golang::{number, quoted};

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Invalid {
    pub reason: Reason,
    /// Path in upstream's spelling, e.g. `spec.resources[storage]`.
    pub field: String,
    pub value: Option<Value>,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Required,
    Invalid,
    NotSupported,
    Forbidden,
    /// Forbidden, unless the server allows privileged containers.
    Disallowed,
    Duplicate,
    NotFound,
    TooLong,
    TooMany,
    /// A value of the wrong type, which custom resources tell apart from other invalid ones.
    TypeInvalid,
}

impl Reason {
    /// The cause's `reason` in a Status.
    pub fn code(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden | Self::Disallowed => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden | Self::Disallowed => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

impl Invalid {
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { reason: Reason::Required, field: field.into(), value: None, detail: detail.into() }
    }
    #[expect(clippy::self_named_constructors, reason = "upstream's name for this error")]
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self {
            reason: Reason::Invalid,
            field: field.into(),
            value: Some(value.into()),
            detail: detail.into(),
        }
    }
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { reason: Reason::Forbidden, field: field.into(), value: None, detail: detail.into() }
    }
    /// Rules do not know what the server allows, so they object, and the server drops what it allows.
    pub fn disallowed(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { reason: Reason::Disallowed, ..Self::forbidden(field, detail) }
    }
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            reason: Reason::Duplicate,
            field: field.into(),
            value: Some(value.into()),
            detail: String::new(),
        }
    }
    /// `supported` is listed sorted, as upstream does.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let mut supported: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        supported.sort();
        let detail = format!("supported values: {}", supported.join(", "));
        Self { reason: Reason::NotSupported, field: field.into(), value: Some(value.into()), detail }
    }

    /// The text without the field, as it stands in a cause's `message`.
    pub fn body(&self) -> String {
        let mut text = self.reason.words().to_owned();
        if let Some(value) = &self.value {
            text.push_str(&format!(": {}", shown(value)));
        }
        if !self.detail.is_empty() {
            text.push_str(&format!(": {}", self.detail));
        }
        text
    }
}

/// Strings quoted, numbers and flags as Go prints them, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(value) => number(value),
        other => go_json(other),
    }
}

/// JSON as Go writes it: safe to put into HTML.
pub fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&']) {
        return text;
    }
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}
