//! Strategic merge patch: a merge patch whose lists merge by key, steered by `$` directives.

use serde_json::{Map, Value};

use super::merge_keys::{ListKind, Path};
use crate::status::Status;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

pub fn apply(object: Value, patch: &Value) -> Result<Value, Status> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(malformed("the patch is not an object"));
    };
    let mut path = Path::of(&object);
    merge_object(object, patch, &mut path).map(Value::Object)
}

fn malformed(why: &str) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}

/// `path` leads to this object, without positions.
fn merge_object<'a>(old: Object, patch: &'a Object, path: &mut Path<'a>) -> Result<Object, Status> {
    match patch.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => return Ok(cleaned(patch)),
        Some("delete") => return Ok(Object::new()),
        Some(other) => return Err(malformed(&format!("unknown directive {other:?}"))),
    }
    let mut out = old;
    if let Some(keep) = patch.get(RETAIN_KEYS) {
        let keep = keep.as_array().ok_or_else(|| malformed("$retainKeys is not a list"))?;
        out.retain(|key, _| keep.iter().any(|kept| kept == key));
    }
    for (key, change) in patch {
        if key == PATCH || key == RETAIN_KEYS || key.starts_with(SET_ORDER) {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            delete_primitives(&mut out, field, change);
            continue;
        }
        path.fields.push(key);
        let old = out.remove(key);
        if let Some(new) = merge_value(old, change, path)? {
            out.insert(key.clone(), new);
        }
        path.fields.pop();
    }
    // Orders come last: they may speak of lists that the patch changes and of lists it does not.
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(SET_ORDER)
            && let (Some(Value::Array(list)), Some(order)) = (out.get_mut(field), order.as_array())
        {
            path.fields.push(field);
            reorder(list, order, path.list_kind());
            path.fields.pop();
        }
    }
    Ok(out)
}

/// `None` when the value goes away.
fn merge_value<'a>(
    old: Option<Value>,
    change: &'a Value,
    path: &mut Path<'a>,
) -> Result<Option<Value>, Status> {
    Ok(match (old, change) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(patch)) => {
            Some(Value::Object(merge_object(old, patch, path)?))
        }
        (_, Value::Object(patch)) => {
            // Nothing to delete from; otherwise a delete leaves an empty object behind.
            if patch.get(PATCH).is_some_and(|directive| directive == "delete") {
                return Ok(None);
            }
            Some(Value::Object(merge_object(Object::new(), patch, path)?))
        }
        (old, Value::Array(patch)) => {
            let old = match old {
                Some(Value::Array(old)) => old,
                _ => Vec::new(),
            };
            Some(Value::Array(merge_list(old, patch, path)?))
        }
        (_, primitive) => Some(primitive.clone()),
    })
}

fn merge_list<'a>(
    mut old: Vec<Value>,
    patch: &'a [Value],
    path: &mut Path<'a>,
) -> Result<Vec<Value>, Status> {
    let directive = |value: &Value| value.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|element| directive(element).as_deref() == Some("replace")) {
        // The directive stands in an element of its own; the others are the new list.
        let rest = patch.iter().filter(|element| directive(element).as_deref() != Some("replace"));
        return Ok(rest.map(cleaned_value).collect());
    }
    match path.list_kind() {
        ListKind::Replace => Ok(patch.iter().map(cleaned_value).collect()),
        ListKind::Set => {
            for element in patch {
                if !old.contains(element) {
                    old.push(element.clone());
                }
            }
            Ok(old)
        }
        ListKind::MergeBy(key) => {
            for element in patch {
                let fields =
                    element.as_object().ok_or_else(|| malformed("a list element is not an object"))?;
                let id = fields.get(key).ok_or_else(|| {
                    malformed(&format!("map: {element} does not contain declared merge key: {key}"))
                })?;
                let position = old.iter().position(|candidate| candidate.get(key) == Some(id));
                match (directive(element).as_deref(), position) {
                    (Some("delete"), Some(position)) => drop(old.remove(position)),
                    (Some("delete"), None) => {}
                    (_, Some(position)) => {
                        let Value::Object(before) = old[position].take() else { continue };
                        old[position] = Value::Object(merge_object(before, fields, path)?);
                    }
                    (_, None) => old.push(Value::Object(merge_object(Object::new(), fields, path)?)),
                }
            }
            Ok(old)
        }
    }
}

fn delete_primitives(object: &mut Object, field: &str, unwanted: &Value) {
    if let (Some(Value::Array(list)), Some(unwanted)) = (object.get_mut(field), unwanted.as_array()) {
        list.retain(|element| !unwanted.contains(element));
    }
}

/// Listed elements take the given order; others keep their place relative to their neighbours in front.
fn reorder(list: &mut [Value], order: &[Value], kind: ListKind) {
    let rank = |element: &Value| match kind {
        ListKind::MergeBy(key) => order.iter().position(|o| o.get(key) == element.get(key)),
        ListKind::Set | ListKind::Replace => order.iter().position(|o| o == element),
    };
    let mut listed: Vec<Value> = list.iter().filter(|e| rank(e).is_some()).cloned().collect();
    listed.sort_by_key(|element| rank(element));
    let mut listed = listed.into_iter();
    for element in list.iter_mut() {
        if rank(element).is_some()
            && let Some(next) = listed.next()
        {
            *element = next;
        }
    }
}

/// Content without directives and nulls, for where there is nothing to merge with.
fn cleaned(object: &Object) -> Object {
    let kept = object.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    kept.map(|(key, value)| (key.clone(), cleaned_value(value))).collect()
}

fn cleaned_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(cleaned(map)),
        Value::Array(list) => Value::Array(list.iter().map(cleaned_value).collect()),
        primitive => primitive.clone(),
    }
}

#[cfg(test)]
mod tests;
