//! Values against their schema, with upstream's findings in upstream's words.

mod finding;
mod formats;
mod junctors;
mod numbers;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::correlate::Correlated;
use super::schema::{Additional, Schema};
use crate::field::Invalid;
pub use finding::{FINDINGS_MAX, Outcome};
use finding::{Finding, What};
pub use formats::{duration, is_recognized};

/// What is wrong with a value. `prefix` is where it stands in its object; what it replaces may excuse it.
pub fn validate(
    prefix: &str,
    value: &Value,
    schema: &Schema,
    replaces: Option<Correlated<'_>>,
) -> Vec<Invalid> {
    let outcome = visit(schema, value, "", replaces);
    outcome.findings.into_iter().map(|finding| finding.into_invalid(prefix)).collect()
}

/// A value whose errors count only if it changed.
fn visit(schema: &Schema, value: &Value, path: &str, replaces: Option<Correlated<'_>>) -> Outcome {
    let mut outcome = check(schema, value, path, replaces);
    if !outcome.is_valid() && replaces.is_some_and(|replaces| replaces.is_unchanged()) {
        outcome.findings.clear();
    }
    outcome
}

/// The matches that are counted on the way decide which of several alternatives came closest.
fn check(schema: &Schema, value: &Value, path: &str, replaces: Option<Correlated<'_>>) -> Outcome {
    let mut out = Outcome::default();
    let format = formats::effective(schema);
    if value.is_null() {
        out.merge(type_of(schema, format, value, path));
        out.merge(listed(schema, value, path));
        return out;
    }
    let mut step = |outcome: Outcome| {
        out.merge(outcome);
        out.count();
    };
    if !schema.types().is_empty() || !format.is_empty() {
        step(type_of(schema, format, value, path));
    }
    step(junctors::check(schema, value, path, replaces));
    match value {
        Value::String(text) => {
            step(text_limits(schema, text, path));
            if formats::is_known(format) {
                step(formatted(format, text, path));
            }
        }
        Value::Number(number) => step(numbers::check(schema, number, path)),
        Value::Array(items) => step(list(schema, items, path, replaces)),
        _ => {}
    }
    step(listed(schema, value, path));
    if value.is_object() {
        step(object(schema, value, path, replaces));
    }
    out.count();
    out
}

/// The JSON type of a value, and what upstream calls its form.
fn kind_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    }
}

fn type_of(schema: &Schema, format: &str, value: &Value, path: &str) -> Outcome {
    let types = schema.types();
    let (type_, form) = kind_of(value);
    let wrong = |wanted: &str, found: &str| {
        let text = format!("{path} in body must be of type {wanted}: {found:?}");
        Outcome::of(Finding::new(path, What::Type(found.into()), text))
    };
    if value.is_null() {
        let refused = !types.is_empty() && !schema.nullable;
        return if refused { wrong(&types.join(","), type_) } else { Outcome::matched() };
    }
    let whole = value.as_f64().is_some_and(numbers::is_whole);
    let as_integer = type_ == "number" && whole && types.contains(&"integer");
    let as_number = type_ == "integer" && types.contains(&"number");
    let fits = types.contains(&type_) || as_integer || as_number;
    let textual = matches!(value, Value::String(_) | Value::Array(_));
    if !textual && !format.is_empty() && !fits && form != format {
        return wrong(format, form);
    }
    // A text with a format is checked by its format alone.
    let numeric = types.contains(&"number") || types.contains(&"integer");
    if fits || (!numeric && !format.is_empty() && textual) {
        return Outcome::matched();
    }
    wrong(&types.join(","), type_)
}

fn listed(schema: &Schema, value: &Value, path: &str) -> Outcome {
    if schema.enum_.is_empty()
        || schema.enum_.iter().any(|allowed| !value.is_null() && numbers::same(allowed, value))
    {
        return Outcome::default();
    }
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let allowed: Vec<String> = schema.enum_.iter().map(shown).collect();
    let text = format!("{path} in body should be one of [{}]", allowed.join(" "));
    Outcome::of(Finding::new(path, What::Enum { value: value.clone(), allowed }, text))
}

fn text_limits(schema: &Schema, text: &str, path: &str) -> Outcome {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let other = |why: String| Outcome::of(Finding::new(path, What::Other(text.into()), why));
    if let Some(max) = schema.max_length.filter(|max| length() > *max) {
        let why = format!("{path} in body should be at most {max} chars long");
        return Outcome::of(Finding::new(path, What::TooLong(max), why));
    }
    if let Some(min) = schema.min_length.filter(|min| length() < *min) {
        return other(format!("{path} in body should be at least {min} chars long"));
    }
    if !schema.pattern.is_empty() && !schema.pattern.matches(text) {
        return other(format!("{path} in body should match '{}'", schema.pattern.text));
    }
    Outcome::default()
}

fn formatted(format: &str, text: &str, path: &str) -> Outcome {
    if formats::fits(format, text) {
        return Outcome::default();
    }
    let why = format!("{path} in body must be of type {format}: {text:?}");
    Outcome::of(Finding::new(path, What::Type(text.into()), why))
}

fn list(schema: &Schema, items: &[Value], path: &str, replaces: Option<Correlated<'_>>) -> Outcome {
    let mut out = Outcome::default();
    if let Some(below) = schema.items() {
        let old = replaces.map(|replaces| replaces.elements());
        for (index, item) in items.iter().enumerate() {
            let replaced = old.as_ref().and_then(|old| old.get(index));
            out.merge(visit(below, item, &format!("{path}[{index}]"), replaced));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.min_items.filter(|min| size < *min) {
        let why = format!("{path} in body should have at least {min} items");
        out.add(Finding::new(path, What::Other(size.into()), why));
    }
    if let Some(max) = schema.max_items.filter(|max| size > *max) {
        let why = format!("{path} in body should have at most {max} items");
        out.add(Finding::new(path, What::TooMany { actual: size, max }, why));
    }
    out.count();
    out
}

fn object(schema: &Schema, value: &Value, path: &str, replaces: Option<Correlated<'_>>) -> Outcome {
    let mut out = Outcome::default();
    let Value::Object(fields) = value else { return out };
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.min_properties.filter(|min| size < *min) {
        let why = format!("{path} in body should have at least {min} properties");
        out.add(Finding::new(path, What::Other(size.into()), why));
    }
    if let Some(max) = schema.max_properties.filter(|max| size > *max) {
        let why = format!("{path} in body should have at most {max} properties");
        out.add(Finding::new(path, What::TooMany { actual: size, max }, why));
    }
    let unnamed = || fields.iter().filter(|(key, _)| !schema.properties.contains_key(*key));
    match &schema.additional_properties {
        Some(Additional::Allowed(false)) => {
            for (key, _) in unnamed() {
                let why = format!("{path}.{key} in body is a forbidden property");
                out.add(Finding::new(path, What::Other(key.as_str().into()), why));
            }
        }
        Some(Additional::Schema(below)) => {
            for (key, value) in unnamed() {
                let replaced = replaces.and_then(|replaces| replaces.key(key));
                out.merge(visit(below, value, &format!("{path}.{key}"), replaced));
            }
        }
        _ => {}
    }
    for (name, below) in &schema.properties {
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(value) = fields.get(name) {
            let replaced = replaces.and_then(|replaces| replaces.key(name));
            out.merge(visit(below, value, &at, replaced));
        }
    }
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        let at = format!("{path}.{name}");
        let why = format!("{at} in body is required");
        out.add(Finding::new(&at, What::Required, why));
    }
    out
}
