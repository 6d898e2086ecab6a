//! JSON patch (RFC 6902) with the leniency upstream's library has and its clients rely on:
//! `replace` of an absent key adds it, and `test` for null passes on an absent key.

use serde_json::Value;

use crate::golang::json_type;
use crate::json::{DEPTH_MAX, depth};
use crate::status::Status;

/// A path is not there, or a test failed.
#[derive(Debug)]
struct Inapplicable;

/// More operations than this are refused.
const OPERATIONS_MAX: usize = 10_000;

/// Whether this is a list of operations. Returns the paths of what is in them beside, e.g. `[0].foo`.
pub fn check(operations: &Value) -> Result<Vec<String>, Status> {
    let refused = |value: &Value, wanted: &str| {
        let found = json_type(value);
        Status::bad_request(format!("error decoding patch: json: cannot unmarshal {found} into Go {wanted}"))
    };
    let all = match operations {
        Value::Null => return Ok(Vec::new()),
        Value::Array(all) => all,
        other => return Err(refused(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut unknown = Vec::new();
    for (position, operation) in all.iter().enumerate() {
        let Some(fields) = operation.as_object() else {
            return Err(refused(operation, "value of type handlers.jsonPatchOp"));
        };
        for (name, value) in fields {
            match name.as_str() {
                "op" | "path" | "from" if !value.is_string() && !value.is_null() => {
                    return Err(refused(value, &format!("struct field jsonPatchOp.{name} of type string")));
                }
                "op" | "path" | "from" | "value" => {}
                _ => unknown.push(format!("[{position}].{name}")),
            }
        }
    }
    if all.len() > OPERATIONS_MAX {
        let count = all.len();
        return Err(Status::too_large(&format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
        )));
    }
    Ok(unknown)
}

/// Bytes that all copies of a patch may add; each could double the object.
const COPIED_MAX: usize = 3 << 20;

/// The operations were checked.
pub fn apply(mut object: Value, operations: &Value) -> Result<Value, Status> {
    let mut copied = 0;
    for operation in operations.as_array().into_iter().flatten() {
        step(&mut object, operation, &mut copied).map_err(|Inapplicable| Status::unprocessable())?;
    }
    Ok(object)
}

fn step(object: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), Inapplicable> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str).ok_or(Inapplicable);
    // No value is null.
    let value = operation.get("value").unwrap_or(&Value::Null);
    let path = text("path")?;
    if !path.is_empty() && !path.contains('/') {
        return Err(Inapplicable);
    }
    match text("op")? {
        "add" => add(object, path, fitting(path, value.clone())?),
        "remove" => remove(object, path).map(drop),
        "replace" => replace(object, path, fitting(path, value.clone())?),
        "move" => {
            let moved = remove(object, text("from")?)?;
            add(object, path, fitting(path, moved)?)
        }
        "copy" => {
            let from = Some(text("from")?).filter(|from| !from.is_empty()).ok_or(Inapplicable)?;
            let source = lenient(object, from)?;
            *copied += source.to_string().len();
            if *copied > COPIED_MAX {
                return Err(Inapplicable);
            }
            let source = source.clone();
            add(object, path, fitting(path, source)?)
        }
        "test" if lenient(object, path)? == value => Ok(()),
        _ => Err(Inapplicable),
    }
}

/// A value, unless the object would become deeper with it than a body may be: each copy could double its depth.
fn fitting(path: &str, value: Value) -> Result<Value, Inapplicable> {
    if segments(path).count() + depth(&value) > DEPTH_MAX { Err(Inapplicable) } else { Ok(value) }
}

/// The unescaped segments of a pointer.
fn segments(path: &str) -> impl Iterator<Item = String> {
    path.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    segments(path).try_fold(object, |at, segment| match at {
        Value::Object(map) => map.get(&segment),
        Value::Array(list) => list.get(index(&segment, list.len())?),
        _ => None,
    })
}

/// The container a path points into, and its last segment; `None` for the whole document.
fn place<'a>(object: &'a mut Value, path: &str) -> Result<Option<(&'a mut Value, String)>, Inapplicable> {
    let mut all: Vec<String> = segments(path).collect();
    let Some(last) = all.pop() else { return Ok(None) };
    let parent = all.iter().try_fold(object, |at, segment| match at {
        Value::Object(map) => map.get_mut(segment).ok_or(Inapplicable),
        Value::Array(list) => {
            let position = index(segment, list.len()).ok_or(Inapplicable)?;
            list.get_mut(position).ok_or(Inapplicable)
        }
        _ => Err(Inapplicable),
    })?;
    Ok(Some((parent, last)))
}

/// Negative positions count from the end, as upstream's library allows.
fn index(segment: &str, length: usize) -> Option<usize> {
    match segment.strip_prefix('-') {
        Some(back) => length.checked_sub(back.parse::<usize>().ok().filter(|n| *n > 0)?),
        None => segment.parse().ok(),
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), Inapplicable> {
    match place(object, path)? {
        // Nothing holds the whole document.
        None => return Err(Inapplicable),
        Some((Value::Object(map), key)) => {
            map.insert(key, value);
        }
        Some((Value::Array(list), key)) => {
            let position =
                if key == "-" { list.len() } else { index(&key, list.len()).ok_or(Inapplicable)? };
            if position > list.len() {
                return Err(Inapplicable);
            }
            list.insert(position, value);
        }
        Some(_) => return Err(Inapplicable),
    }
    Ok(())
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), Inapplicable> {
    match place(object, path)? {
        // Only this operation may be about the whole document.
        None if value.is_object() || value.is_array() => {
            *object = value;
            Ok(())
        }
        Some((Value::Array(list), key)) => {
            let position = index(&key, list.len()).ok_or(Inapplicable)?;
            *list.get_mut(position).ok_or(Inapplicable)? = value;
            Ok(())
        }
        _ => add(object, path, value),
    }
}

fn remove(object: &mut Value, path: &str) -> Result<Value, Inapplicable> {
    match place(object, path)? {
        Some((Value::Object(map), key)) => map.remove(&key).ok_or(Inapplicable),
        Some((Value::Array(list), key)) => {
            let position = index(&key, list.len()).filter(|p| *p < list.len()).ok_or(Inapplicable)?;
            Ok(list.remove(position))
        }
        _ => Err(Inapplicable),
    }
}

/// An absent key counts as null, but what would hold it must be there.
fn lenient<'a>(object: &'a Value, path: &str) -> Result<&'a Value, Inapplicable> {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    find(object, parent).ok_or(Inapplicable)?;
    Ok(find(object, path).unwrap_or(&Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn op(op: &str, path: &str, value: Value) -> Value {
        json!({"op": op, "path": path, "value": value})
    }

    #[test]
    fn table() {
        let object = json!({"metadata": {"finalizers": ["a", "b"], "annotations": {"x/y": "1", "t~e": "2"}}});
        let meta = |finalizers: Value, annotations: Value| json!({"metadata": {"finalizers": finalizers, "annotations": annotations}});
        let notes = json!({"x/y": "1", "t~e": "2"});
        let cases = [
            (
                "add to the end",
                vec![op("add", "/metadata/finalizers/-", json!("c"))],
                Some(meta(json!(["a", "b", "c"]), notes.clone())),
            ),
            (
                "insert",
                vec![op("add", "/metadata/finalizers/1", json!("c"))],
                Some(meta(json!(["a", "c", "b"]), notes.clone())),
            ),
            ("beyond the end", vec![op("add", "/metadata/finalizers/3", json!("c"))], None),
            (
                "remove by position",
                vec![op("remove", "/metadata/finalizers/0", json!(null))],
                Some(meta(json!(["b"]), notes.clone())),
            ),
            (
                "remove the last",
                vec![op("remove", "/metadata/finalizers/-1", json!(null))],
                Some(meta(json!(["a"]), notes.clone())),
            ),
            ("remove what is not there", vec![op("remove", "/spec", json!(null))], None),
            (
                "escapes",
                vec![
                    op("replace", "/metadata/annotations/x~1y", json!("3")),
                    op("remove", "/metadata/annotations/t~0e", json!(null)),
                ],
                Some(meta(json!(["a", "b"]), json!({"x/y": "3"}))),
            ),
            (
                "replace an absent key",
                vec![op("replace", "/metadata/annotations/new", json!("3"))],
                Some(meta(json!(["a", "b"]), json!({"x/y": "1", "t~e": "2", "new": "3"}))),
            ),
            ("replace below an absent key", vec![op("replace", "/status/phase", json!("3"))], None),
            ("replace an absent element", vec![op("replace", "/metadata/finalizers/2", json!("c"))], None),
            ("test passes", vec![op("test", "/metadata/finalizers/0", json!("a"))], Some(object.clone())),
            (
                "test null on an absent key",
                vec![op("test", "/metadata/labels", json!(null))],
                Some(object.clone()),
            ),
            ("test null below an absent key", vec![op("test", "/metadata/labels/a", json!(null))], None),
            (
                "replace the whole",
                vec![op("replace", "", json!({"metadata": {}}))],
                Some(json!({"metadata": {}})),
            ),
            ("replace the whole by a list", vec![op("replace", "", json!([]))], Some(json!([]))),
            ("replace the whole by neither", vec![op("replace", "", json!("x"))], None),
            ("add the whole", vec![op("add", "", object.clone())], None),
            ("remove the whole", vec![op("remove", "", json!(null))], None),
            (
                "copy the whole",
                vec![json!({"op": "copy", "from": "", "path": "/metadata/annotations/x"})],
                None,
            ),
            ("copy to the whole", vec![json!({"op": "copy", "from": "/metadata", "path": ""})], None),
            ("test fails", vec![op("test", "/metadata/finalizers/0", json!("b"))], None),
            (
                "move",
                vec![
                    json!({"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-"}),
                ],
                Some(meta(json!(["b", "a"]), notes.clone())),
            ),
            (
                "copy",
                vec![
                    json!({"op": "copy", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-"}),
                ],
                Some(meta(json!(["a", "b", "a"]), notes)),
            ),
        ];
        for (name, operations, want) in cases {
            let result = apply(object.clone(), &Value::Array(operations));
            match want {
                Some(want) => assert_eq!(result.unwrap(), want, "{name}"),
                None => assert_eq!(result.unwrap_err(), Status::unprocessable(), "{name}"),
            }
        }
    }

    #[test]
    fn a_malformed_patch_is_a_bad_request() {
        for patch in [json!({}), json!(["add"]), json!("add")] {
            assert_eq!(check(&patch).unwrap_err().code, 400, "{patch}");
        }
    }

    #[test]
    fn what_is_no_list_of_operations() {
        let cases = [
            (json!({}), "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
            (json!([1]), "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
            (
                json!([{"op": 1}]),
                "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            ),
        ];
        for (operations, why) in cases {
            let refused = check(&operations).expect_err("refused");
            assert_eq!((refused.code, refused.message), (400, format!("error decoding patch: {why}")));
        }
        assert_eq!(check(&json!([{"op": "add", "foo": 1}])).expect("operations"), ["[0].foo"]);
        for nonsense in [
            json!([{}]),
            json!([{"op": "x", "path": "/a"}]),
            json!([{"op": "move", "path": "/a"}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
        ] {
            assert_eq!(apply(json!({}), &nonsense).expect_err("refused").code, 422, "{nonsense}");
        }
    }

    #[test]
    fn what_is_patched_is_no_deeper_than_a_body() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let below = |levels: usize| format!("/x{}", "/0".repeat(levels));
        let object = || json!({"x": nested(100)});
        let copy = |levels: usize| json!([{"op": "copy", "from": "/x", "path": below(levels)}]);
        assert_eq!(depth(&apply(object(), &copy(26)).expect("as deep as may be")), DEPTH_MAX);
        let moved = json!([{"op": "add", "path": "/y", "value": nested(50)},
            {"op": "move", "from": "/y", "path": below(99)}]);
        for (name, operations) in [
            ("copy", copy(27)),
            ("move", moved),
            ("add", json!([{"op": "add", "path": below(99), "value": nested(28)}])),
            ("replace", json!([{"op": "replace", "path": below(99), "value": nested(28)}])),
        ] {
            assert_eq!(apply(object(), &operations).expect_err(name).code, 422, "{name}");
        }
    }

    #[test]
    fn patches_have_an_end() {
        let many = |count: usize| Value::Array(vec![op("test", "/a", json!(null)); count]);
        assert!(check(&many(10_000)).is_ok());
        let refused = check(&many(10_001)).expect_err("too many");
        let text =
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert_eq!((refused.code, refused.message.as_str()), (413, text));
        // Each copy doubles what is there.
        let copies = vec![json!({"op": "copy", "from": "/a", "path": "/a/b"}); 1000];
        assert_eq!(apply(json!({"a": {"x": "y"}}), &Value::Array(copies)).expect_err("refused").code, 422);
    }
}
