//! How two values differ, field by field.
//!
//! Upstream compares Go structs, in which some fields are there even when nobody sets them: a struct within a struct,
//! and whatever is not left out when empty. Who creates an object owns what it adds to that; so do we.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::set::{Branch, Set};
use super::shape::{Form, Kind};
use crate::schema::{Field, Schema, Shape, TypeId};

/// What a field that is there says when nobody has set it.
static ZERO: Value = Value::Null;

#[derive(Debug, Default, PartialEq)]
pub struct Difference {
    /// What the new value says that the old one did not, or said differently.
    pub changed: Set,
    /// What the new value no longer says.
    pub removed: Set,
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    pub fn cut(&mut self, branches: &[&[&str]]) {
        for branch in branches {
            self.changed.cut(branch);
            self.removed.cut(branch);
        }
    }
}

/// `old` is null if there is none. The record of managers is not part of an object here.
pub fn compare(old: &Value, new: &Value, kind: Kind<'_>) -> Difference {
    let pair = walk(Some(old), Some(new), kind);
    let mut difference = Difference { changed: pair.changed.into(), removed: pair.removed.into() };
    difference.cut(&[&["metadata", "managedFields"]]);
    difference
}

#[derive(Default)]
struct Pair {
    changed: Branch,
    removed: Branch,
}

type Side<'v> = Option<&'v Value>;

fn walk(old: Side<'_>, new: Side<'_>, kind: Kind<'_>) -> Pair {
    let mut pair = Pair::default();
    if old == new {
        return pair;
    }
    if kind.divides_objects() && (is_object(old, kind) || is_object(new, kind)) {
        objects(old, new, kind, &mut pair);
    } else if kind.divides_lists() && (is_list(old) || is_list(new)) {
        lists(old, new, kind, &mut pair);
    } else {
        pair.changed.member = old.is_some() && new.is_some() && !both_zero(old, new);
    }
    pair.changed.member |= old.is_none();
    pair.removed.member = new.is_none();
    pair
}

/// A message that nobody has set still has the fields that are always there.
fn is_object(side: Side<'_>, kind: Kind<'_>) -> bool {
    side.is_some_and(|value| {
        value.is_object() || value.is_null() && matches!(kind.form, Form::Message { .. })
    })
}

fn is_list(side: Side<'_>) -> bool {
    side.is_some_and(Value::is_array)
}

fn both_zero(old: Side<'_>, new: Side<'_>) -> bool {
    old.is_none_or(is_empty) && new.is_none_or(is_empty)
}

fn objects(old: Side<'_>, new: Side<'_>, kind: Kind<'_>, pair: &mut Pair) {
    let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let mismatch = |side: Side<'_>| side.is_some_and(|value| !value.is_object() && !value.is_null());
    pair.changed.member = mismatch(old) || mismatch(new);
    let mut member = |name: &str| {
        let inner = kind.member(name).unwrap_or(Kind::DEDUCED);
        let field = kind.field(name);
        let below = walk(content(old, before, field, name), content(new, after, field, name), inner);
        pair.changed.grow(|| format!("f:{name}"), below.changed);
        pair.removed.grow(|| format!("f:{name}"), below.removed);
    };
    after.into_iter().flatten().for_each(|(name, _)| member(name));
    let only_before = before.into_iter().flatten();
    only_before
        .filter(|(name, _)| !after.is_some_and(|a| a.contains_key(*name)))
        .for_each(|(name, _)| member(name));
    // What is always there comes and goes with its message.
    if let Form::Message { id, .. } = kind.form
        && old.is_some() != new.is_some()
    {
        let given = before.or(after);
        always_there(id, &mut |field| {
            if !given.is_some_and(|object| object.contains_key(&*field.name)) {
                member(&field.name);
            }
        });
    }
}

fn content<'v>(
    side: Side<'v>,
    object: Option<&'v Map<String, Value>>,
    field: Option<&Field>,
    name: &str,
) -> Side<'v> {
    let given = object.and_then(|object| object.get(name));
    match field {
        Some(field) => side.and_then(|_| said(field, given)),
        None => given,
    }
}

/// What a Go struct would hold for a field; `None` if it would be left out.
fn said<'v>(field: &Field, given: Side<'v>) -> Side<'v> {
    match given.filter(|value| !value.is_null()) {
        Some(value) if field.pointer || !is_empty(value) => Some(value),
        Some(value) if value.is_object() && !matches!(field.shape, Shape::Map(_)) => Some(value),
        _ => is_always_there(field).then_some(&ZERO),
    }
}

fn is_always_there(field: &Field) -> bool {
    /// The only field that upstream leaves out although it is a struct.
    const LEFT_OUT_WHEN_ZERO: &str = "creationTimestamp";
    let structure = match field.shape {
        Shape::Message(_)
        | Shape::Quantity
        | Shape::IntOrString
        | Shape::Time
        | Shape::MicroTime
        | Shape::Duration
        | Shape::RawExtension => !field.pointer && &*field.name != LEFT_OUT_WHEN_ZERO,
        _ => false,
    };
    structure || !field.omit_empty
}

fn always_there(id: TypeId, visit: &mut dyn FnMut(&'static Field)) {
    let schema = Schema::get();
    for field in &schema.of(id).fields {
        match field.shape {
            Shape::Message(inner) if field.inline => always_there(inner, visit),
            _ if is_always_there(field) => visit(field),
            _ => {}
        }
    }
}

/// What Go calls empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

/// Elements by name. Those that lack a key have none and are nobody's; several may have the same.
fn by_name<'v>(list: Side<'v>, kind: Kind<'_>) -> BTreeMap<String, Vec<&'v Value>> {
    let mut found: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(name) = kind.name_element(item) {
            found.entry(name).or_default().push(item);
        }
    }
    found
}

fn lists(old: Side<'_>, new: Side<'_>, kind: Kind<'_>, pair: &mut Pair) {
    let (before, after) = (by_name(old, kind), by_name(new, kind));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let left = before.get(name).map(Vec::as_slice).unwrap_or_default();
        let right = after.get(name).map(Vec::as_slice).unwrap_or_default();
        let below = same_named(left, right, kind.element());
        pair.changed.grow(|| name.clone(), below.changed);
        pair.removed.grow(|| name.clone(), below.removed);
    }
}

/// Elements that share a name are one value; when that ends or begins, the name itself goes or comes.
fn same_named(old: &[&Value], new: &[&Value], element: Kind<'_>) -> Pair {
    match (old, new) {
        ([] | [_], [] | [_]) => walk(old.first().copied(), new.first().copied(), element),
        ([_, _, ..], [_, _, ..]) => {
            let changed = Branch { member: old != new, ..Branch::default() };
            Pair { changed, removed: Branch::default() }
        }
        ([_, _, ..], _) => {
            let mut pair = new.first().map(|new| walk(None, Some(new), element)).unwrap_or_default();
            pair.removed.member = true;
            pair
        }
        _ => {
            let mut pair = old.first().map(|old| walk(Some(old), None, element)).unwrap_or_default();
            pair.changed.member = true;
            pair
        }
    }
}
