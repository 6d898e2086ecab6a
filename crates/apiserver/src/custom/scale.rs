//! Numbers that the `scale` subresource reads: checked with the object, because they have to be readable.

use serde_json::Value;

use super::definition::ScalePaths;
use crate::field::Invalid;
use crate::golang::{plain, type_of};

pub fn spec_errors(object: &Value, scale: &ScalePaths) -> Vec<Invalid> {
    replicas(object, &scale.spec_replicas_path).into_iter().collect()
}

pub fn status_errors(object: &Value, scale: &ScalePaths) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> = replicas(object, &scale.status_replicas_path).into_iter().collect();
    if let Some(path) = scale.label_selector_path.as_deref().filter(|path| !path.is_empty()) {
        match find(object, path) {
            Ok(None | Some(Value::String(_))) => {}
            Ok(Some(other)) => errors.push(Invalid::invalid(path, "", misfit(path, other, "string"))),
            Err(why) => errors.push(Invalid::invalid(path, "", why)),
        }
    }
    errors
}

fn replicas(object: &Value, path: &str) -> Option<Invalid> {
    let number = match find(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            Some(number) => number,
            None => return Some(Invalid::invalid(path, 0, misfit(path, value, "int64"))),
        },
        Err(why) => return Some(Invalid::invalid(path, 0, why)),
    };
    if number < 0 {
        return Some(Invalid::invalid(path, number, "should be a non-negative integer"));
    }
    let most = i64::from(i32::MAX);
    (number > most).then(|| Invalid::invalid(path, number, format!("should be less than or equal to {most}")))
}

/// What stands at a path of names. The error is about what stands in the way.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for name in path.trim_start_matches('.').split('.') {
        match value {
            Value::Object(fields) => match fields.get(name) {
                Some(below) => value = below,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(misfit(path, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn misfit(path: &str, found: &Value, wanted: &str) -> String {
    format!("{path} accessor error: {} is of the type {}, expected {wanted}", plain(found), type_of(found))
}
