//! Strategic merge patch: a merge patch whose lists merge by key, steered by `$` directives.

mod order;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::merge_keys::{ListKind, Path};
use crate::golang::plain;
use crate::status::Status;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

/// What a patch says of a list that it only orders.
static UNCHANGED: Value = Value::Array(Vec::new());

pub fn apply(object: Value, patch: &Value) -> Result<Value, Status> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(Status::bad_request("the patch is not an object"));
    };
    let mut path = Path::of(&object);
    merge_object(object, patch, &mut path).map(Value::Object)
}

/// Upstream passes these on as they are.
fn no_merge_key(element: &Value, key: &str) -> Status {
    Status::bare(format!("map: {} does not contain declared merge key: {key}", plain(element)))
}

/// `path` leads to this object, without positions.
fn merge_object<'a>(old: Object, patch: &'a Object, path: &mut Path<'a>) -> Result<Object, Status> {
    match patch.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => return Ok(cleaned(patch)),
        Some("delete") => return Ok(Object::new()),
        Some(other) => {
            let shown = plain(&Value::Object(patch.clone()));
            return Err(Status::bare(format!("unknown patch type: {other} in map: {shown}")));
        }
    }
    let mut out = old;
    if let Some(keep) = patch.get(RETAIN_KEYS) {
        retain_keys(&mut out, keep, patch)?;
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
        let order = patch.get(&format!("{SET_ORDER}{key}"));
        if let Some(new) = ordered(old, order, change, path)? {
            out.insert(key.clone(), new);
        }
        path.fields.pop();
    }
    // An order may also speak of a list that the patch does not change.
    for (key, order) in patch {
        let field = key.strip_prefix(SET_ORDER).filter(|field| !patch.contains_key(*field));
        let Some(field) = field else { continue };
        path.fields.push(field);
        let old = out.remove(field);
        if let Some(new) = ordered(old, Some(order), &UNCHANGED, path)?
            && new != UNCHANGED
        {
            out.insert(field.to_owned(), new);
        }
        path.fields.pop();
    }
    Ok(out)
}

/// Fields that the patch names and does not keep make no sense.
fn retain_keys(object: &mut Object, keep: &Value, patch: &Object) -> Result<(), Status> {
    let refused = || Status::bad_request("invalid patch format of retainKeys");
    let keep: HashSet<&str> = keep.as_array().ok_or_else(refused)?.iter().filter_map(Value::as_str).collect();
    let kept = |key: &String| keep.contains(key.as_str());
    if !patch.keys().filter(|key| !key.starts_with('$')).all(kept) {
        return Err(refused());
    }
    object.retain(|key, _| kept(key));
    Ok(())
}

fn ordered<'a>(
    old: Option<Value>,
    order: Option<&Value>,
    change: &'a Value,
    path: &mut Path<'a>,
) -> Result<Option<Value>, Status> {
    match (old, order) {
        (Some(old @ Value::Array(_)), Some(order)) => ordered_list(old, order, change, path),
        (old, Some(order)) => {
            order::check(order, change, path.list_kind())?;
            merge_value(old, change, path)
        }
        (old, None) => merge_value(old, change, path),
    }
}

/// Merges a list and puts it into the order that the patch asks for.
fn ordered_list<'a>(
    old: Value,
    order: &Value,
    change: &'a Value,
    path: &mut Path<'a>,
) -> Result<Option<Value>, Status> {
    let kind = path.list_kind();
    let order = order::check(order, change, kind)?;
    let before = old.as_array().cloned().unwrap_or_default();
    Ok(match merge_value(Some(old), change, path)? {
        Some(Value::Array(merged)) if kind != ListKind::Replace => {
            Some(Value::Array(order::arrange(merged, order, &before, kind)))
        }
        other => other,
    })
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
        // There is nothing to merge with, so nobody asks how the list merges.
        (None, Value::Array(list)) if !list.iter().any(|element| element.get(PATCH).is_some()) => {
            Some(cleaned_value(change))
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

fn merge_list<'a>(old: Vec<Value>, patch: &'a [Value], path: &mut Path<'a>) -> Result<Vec<Value>, Status> {
    let directive = |value: &Value| value.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|element| directive(element).as_deref() == Some("replace")) {
        // The directive stands in an element of its own; the others are the new list.
        let rest = patch.iter().filter(|element| directive(element).as_deref() != Some("replace"));
        return Ok(rest.map(cleaned_value).collect());
    }
    match path.list_kind() {
        ListKind::Replace => Ok(patch.iter().map(cleaned_value).collect()),
        ListKind::Set => {
            let mut known: HashSet<&Value> = old.iter().collect();
            let new = patch.iter().filter(|element| known.insert(element)).cloned();
            let merged = old.iter().cloned().chain(new).collect();
            Ok(order::arrange(merged, patch, &old, ListKind::Set))
        }
        ListKind::MergeBy(key) => merge_by(key, old, patch, path),
    }
}

/// Elements of the patch meet those of the same key; new ones come before what the patch does not speak of.
fn merge_by<'a>(
    key: &'static str,
    mut old: Vec<Value>,
    patch: &'a [Value],
    path: &mut Path<'a>,
) -> Result<Vec<Value>, Status> {
    let (mut kept, mut unwanted) = (Vec::new(), HashSet::new());
    for element in patch {
        let Some(fields) = element.as_object() else {
            let lists = [plain(&Value::Array(old)), plain(&Value::Array(patch.to_vec()))];
            return Err(Status::bare(format!("list element types are not identical: [{}]", lists.join(" "))));
        };
        let id = fields.get(key).ok_or_else(|| no_merge_key(element, key))?;
        match fields.get(PATCH).and_then(Value::as_str) {
            Some("delete") => _ = unwanted.insert(id),
            Some("merge") => {
                return Err(Status::bare("merging lists cannot yet be specified in the patch"));
            }
            _ => kept.push((id, fields)),
        }
    }
    old.retain(|element| !element.get(key).is_some_and(|id| unwanted.contains(id)));
    let before = old.clone();
    let mut places: HashMap<&Value, usize> = HashMap::with_capacity(before.len());
    for (place, id) in before.iter().enumerate().filter_map(|(place, one)| Some((place, one.get(key)?))) {
        places.entry(id).or_insert(place);
    }
    for (id, fields) in kept {
        match places.get(id) {
            Some(&place) => {
                let Value::Object(before) = old[place].take() else { continue };
                old[place] = Value::Object(merge_object(before, fields, path)?);
            }
            None => {
                places.insert(id, old.len());
                old.push(Value::Object(merge_object(Object::new(), fields, path)?));
            }
        }
    }
    Ok(order::arrange(old, patch, &before, ListKind::MergeBy(key)))
}

fn delete_primitives(object: &mut Object, field: &str, unwanted: &Value) {
    if let (Some(Value::Array(list)), Some(unwanted)) = (object.get_mut(field), unwanted.as_array()) {
        let unwanted: HashSet<&Value> = unwanted.iter().collect();
        list.retain(|element| !unwanted.contains(element));
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
