//! Which fields a value sets, and which of them go when they are no longer wanted.

use serde_json::{Map, Value};

use super::set::{Branch, Set, Tree};
use super::shape::Kind;

/// Every field a value sets.
pub fn fields(value: &Value, kind: Kind<'_>) -> Set {
    collect(value, kind).into()
}

fn collect(value: &Value, kind: Kind<'_>) -> Branch {
    let mut out = Branch::default();
    match value {
        Value::Object(object) if kind.divides_objects() => {
            for (name, value) in object {
                let mut below = collect(value, kind.member(name).unwrap_or(Kind::DEDUCED));
                // A key of a map is somebody's; a field of a message is only where its content is.
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                below.member |= empty || !kind.declares(name);
                out.grow(|| format!("f:{name}"), below);
            }
        }
        Value::Array(items) if kind.divides_lists() => {
            for item in items {
                let Ok(name) = kind.name_element(item) else { continue };
                let mut below = collect(item, kind.element());
                below.member = true;
                out.grow(|| name, below);
            }
        }
        // An empty list of which elements could be owned is nobody's.
        Value::Null if kind.divides_objects() || kind.divides_lists() => {}
        _ => out.member = true,
    }
    out
}

/// The set with every declared field that has something below it, so that a message goes with its last field.
pub fn with_messages(set: &Set, kind: Kind<'_>) -> Set {
    let mut root = Branch::default();
    for (element, node) in set.tree() {
        let Some(tree) = node.as_object() else { continue };
        root.grow(|| element.clone(), name_messages(element, tree, kind));
    }
    root.into()
}

fn name_messages(element: &str, node: &Tree, owner: Kind<'_>) -> Branch {
    let (declared, kind) = match element.strip_prefix("f:") {
        Some(name) => (owner.declares(name), owner.member(name).unwrap_or(Kind::DEDUCED)),
        None => (false, owner.element()),
    };
    let mut out = Branch { member: declared || node.is_empty(), below: Tree::new() };
    for (element, node) in node {
        match (element.as_str(), node.as_object()) {
            (".", _) => out.member = true,
            (_, Some(tree)) => out.grow(|| element.clone(), name_messages(element, tree, kind)),
            _ => {}
        }
    }
    out
}

/// The value without these members and all that is below them. What is emptied by that becomes null.
pub fn remove(value: &Value, kind: Kind<'_>, unwanted: &Tree) -> Value {
    let goes = |element: &str| unwanted.get(element).and_then(Value::as_object);
    let is_member = |node: &Tree| node.is_empty() || node.contains_key(".");
    match value {
        Value::Object(object) if kind.divides_objects() => {
            let mut out = Map::new();
            for (name, value) in object {
                let kept = match goes(&format!("f:{name}")) {
                    Some(node) if is_member(node) => continue,
                    Some(node) => remove(value, kind.member(name).unwrap_or(Kind::DEDUCED), node),
                    None => value.clone(),
                };
                out.insert(name.clone(), kept);
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        Value::Array(items) if kind.divides_lists() => {
            let mut out = Vec::new();
            for item in items {
                let name = kind.name_element(item).unwrap_or_default();
                match goes(&name) {
                    Some(node) if is_member(node) => {}
                    Some(node) => out.push(remove(item, kind.element(), node)),
                    None => out.push(item.clone()),
                }
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
        // Something below a value that does not divide is unwanted: a record from before it stopped dividing.
        other => other.clone(),
    }
}
