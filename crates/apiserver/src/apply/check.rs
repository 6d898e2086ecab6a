//! Whether what a client applies fits the schema, in the words of upstream's structured merge.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::set::print_element;
use super::shape::{Form, Kind, Scalar};

/// What does not fit, each with its path.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatches(Vec<String>);

impl std::fmt::Display for Mismatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0[..] {
            [one] => f.write_str(one),
            many => write!(f, "errors:\n  {}", many.join("\n  ")),
        }
    }
}

/// Nobody can own a field that the schema does not have, so unknown fields are errors here.
pub fn check(value: &Value, kind: Kind<'_>) -> Result<(), Mismatches> {
    let mut found = Vec::new();
    walk(value, kind, &mut String::new(), &mut found);
    if found.is_empty() { Ok(()) } else { Err(Mismatches(found)) }
}

fn walk(value: &Value, kind: Kind<'_>, path: &mut String, found: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let mut wrong = |why: String| found.push(if path.is_empty() { why } else { format!("{path}: {why}") });
    match (kind.form, value) {
        (Form::Deduced, _) => {}
        (Form::Scalar(scalar), value) => {
            if let Some(why) = mismatch(scalar, value) {
                wrong(why);
            }
        }
        (Form::List { .. }, Value::Array(items)) => elements(items, kind, path, found),
        (Form::List { .. }, other) => wrong(format!("expected list, got &{{{}}}", plain(other))),
        (_, Value::Object(object)) => members(object, kind, path, found),
        (_, other) => wrong(format!("expected map, got &{{{}}}", plain(other))),
    }
}

fn members(object: &Map<String, Value>, kind: Kind<'_>, path: &mut String, found: &mut Vec<String>) {
    for (name, value) in object {
        let length = path.len();
        path.push('.');
        path.push_str(name);
        match kind.member(name) {
            Some(member) => walk(value, member, path, found),
            None => found.push(format!("{path}: field not declared in schema")),
        }
        path.truncate(length);
    }
}

fn elements(items: &[Value], kind: Kind<'_>, path: &mut String, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (position, item) in items.iter().enumerate() {
        let name = match kind.divides_lists() {
            true => kind.name_element(item).map(|name| print_element(&name)),
            false => Ok(format!("[{position}]")),
        };
        let element = match name {
            Ok(name) => name,
            // Nothing below an element without a name can be spoken of.
            Err(why) => return found.push(format!("{path}: element {position}: {why}")),
        };
        if kind.divides_lists() && !seen.insert(element.clone()) {
            found.push(format!("{path}: duplicate entries for key {element}"));
        }
        let length = path.len();
        path.push_str(&element);
        walk(item, kind.element(), path, found);
        path.truncate(length);
    }
}

fn mismatch(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match scalar {
        Scalar::Text => value.is_string(),
        Scalar::Number => value.is_number(),
        Scalar::Bool => value.is_boolean(),
        Scalar::Any => !value.is_object() && !value.is_array(),
    };
    let why = match scalar {
        _ if fits => return None,
        Scalar::Text => format!("expected string, got &value.valueUnstructured{{Value:{}}}", literal(value)),
        Scalar::Number => format!("expected numeric (int or float), got {}", go_type(value)),
        Scalar::Bool => format!("expected boolean, got &{{{}}}", plain(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", plain(value)),
    };
    Some(why)
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// As Go prints a value.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(object) => {
            let members: Vec<String> =
                object.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

/// As Go would have it in a program.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let members: Vec<String> =
                object.iter().map(|(name, value)| format!("{name:?}:{}", literal(value))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}
