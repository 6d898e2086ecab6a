//! Objects inside of objects (`x-kubernetes-embedded-resource`): their type and metadata are checked like those of
//! any object.

use bowline_api::name::{
    label_1035_errors, label_errors, label_value_errors, path_segment_errors, qualified_name_errors,
};
use serde_json::Value;

use super::object_meta;
use super::schema::Schema;
use crate::field::Invalid;

/// Checks types of embedded metadata and drops what it does not know.
pub fn coerce(
    value: &mut Value,
    schema: &Schema,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), Invalid> {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                for field in ["apiVersion", "kind"] {
                    if let Some(value) = fields.get(field).filter(|value| !value.is_string()) {
                        return Err(Invalid::invalid(join(path, field), value.clone(), "must be a string"));
                    }
                }
                if let Some(metadata) = fields.get("metadata") {
                    let (at, mut found) = (join(path, "metadata"), Vec::new());
                    let coerced = object_meta::coerce(metadata, &mut found)
                        .map_err(|why| Invalid::invalid(at.as_str(), metadata.clone(), why))?;
                    unknown.extend(found.into_iter().map(|below| join(&at, &below)));
                    fields.insert("metadata".into(), coerced);
                }
            }
            for (key, value) in fields {
                if let Some(below) = schema.member(key) {
                    let named = schema.properties.contains_key(key);
                    let at = if named { join(path, key) } else { format!("{path}[{key}]") };
                    coerce(value, below, &at, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items() else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                coerce(item, below, &format!("{path}[{index}]"), unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// What is wrong with embedded types and metadata.
pub fn validate(value: &Value, schema: &Schema, path: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                errors.extend(type_errors(value, path));
                errors.extend(metadata_errors(&value["metadata"], &join(path, "metadata")));
            }
            for (key, value) in fields {
                if let Some(below) = schema.member(key) {
                    let named = schema.properties.contains_key(key);
                    let at = if named { join(path, key) } else { format!("{path}[{key}]") };
                    errors.extend(validate(value, below, &at));
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items() else { return errors };
            for (index, item) in items.iter().enumerate() {
                errors.extend(validate(item, below, &format!("{path}[{index}]")));
            }
        }
        _ => {}
    }
    errors
}

fn type_errors(object: &Value, path: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let check = |field: &str, shape: &dyn Fn(&str) -> Option<String>| {
        let at = join(path, field);
        match &object[field] {
            Value::Null => Some(Invalid::required(at, "")),
            Value::String(text) if text.is_empty() => Some(Invalid::invalid(at, "", "must not be empty")),
            Value::String(text) => shape(text).map(|why| Invalid::invalid(at, text.as_str(), why)),
            other => Some(Invalid::invalid(at, other.clone(), "must be a string")),
        }
    };
    errors.extend(check("apiVersion", &|text| {
        (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
    }));
    errors.extend(check("kind", &|text| {
        let wrong = label_1035_errors(&text.to_lowercase());
        let all = wrong.join(",");
        (!wrong.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {all}"))
    }));
    errors
}

fn metadata_errors(metadata: &Value, path: &str) -> Vec<Invalid> {
    let each = |field: &str, value: &str, texts: Vec<String>| -> Vec<Invalid> {
        texts.into_iter().map(|why| Invalid::invalid(join(path, field), value, why)).collect()
    };
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let mut errors = each("name", text("name"), path_segment_errors(text("name")));
    if !text("namespace").is_empty() {
        errors.extend(each("namespace", text("namespace"), label_errors(text("namespace"))));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        errors.extend(each("labels", key, qualified_name_errors(key)));
        errors.extend(each("labels", value, label_value_errors(value)));
    }
    for key in metadata["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        errors.extend(each("annotations", key, qualified_name_errors(&key.to_lowercase())));
    }
    errors
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
