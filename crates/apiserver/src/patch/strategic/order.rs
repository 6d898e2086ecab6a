//! The order in which a client wants a list, by `$setElementOrder` or just by that of the patch, and how elements that
//! it does not know of fit in.

use std::collections::HashMap;

use serde_json::Value;

use super::super::merge_keys::ListKind;
use super::{PATCH, no_merge_key};
use crate::golang::{plain, type_of};
use crate::status::Status;

/// What tells an element apart.
fn id(element: &Value, kind: ListKind) -> Option<&Value> {
    match kind {
        ListKind::MergeBy(key) => element.get(key),
        ListKind::Set | ListKind::Replace => Some(element),
    }
}

/// Where the elements of a list stand. Lists can be long, so each is looked through once.
struct Places<'a> {
    kind: ListKind,
    of: HashMap<Option<&'a Value>, usize>,
}

impl<'a> Places<'a> {
    fn of(list: &'a [Value], kind: ListKind) -> Self {
        let mut of = HashMap::with_capacity(list.len());
        for (place, element) in list.iter().enumerate() {
            of.entry(id(element, kind)).or_insert(place);
        }
        Self { kind, of }
    }

    fn find(&self, element: &Value) -> Option<usize> {
        self.of.get(&id(element, self.kind)).copied()
    }
}

/// The order, if it is one and what the patch changes stands in it.
pub fn check<'a>(order: &'a Value, change: &Value, kind: ListKind) -> Result<&'a [Value], Status> {
    let Some(order) = order.as_array() else {
        let found = type_of(order);
        return Err(Status::bare(format!("expected a []interface {{}}, but received a {found}")));
    };
    if let ListKind::MergeBy(key) = kind
        && let Some(unnamed) = order.iter().find(|element| element.get(key).is_none())
    {
        return Err(no_merge_key(unnamed, key));
    }
    let kept = |element: &&Value| element.get(PATCH).is_none();
    let changed: Vec<&Value> = change.as_array().into_iter().flatten().filter(kept).collect();
    let mut rest = changed.iter().peekable();
    for wanted in order {
        rest.next_if(|element| id(element, kind) == id(wanted, kind));
    }
    if kind != ListKind::Replace && rest.peek().is_some() {
        let shown = |list: &[Value]| plain(&Value::Array(list.to_vec()));
        let changed: Vec<Value> = changed.into_iter().cloned().collect();
        return Err(Status::bare(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            shown(&changed),
            shown(order),
        )));
    }
    Ok(order)
}

/// Elements of the order stand as it says. Others keep their place before those that came after them.
pub fn arrange(merged: Vec<Value>, order: &[Value], before: &[Value], kind: ListKind) -> Vec<Value> {
    let (order, before) = (Places::of(order, kind), Places::of(before, kind));
    let (mut listed, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| order.find(element).is_some());
    listed.sort_by_cached_key(|element| order.find(element));
    others.sort_by_cached_key(|element| before.find(element).unwrap_or(usize::MAX));
    let (mut listed, mut others) = (listed.into_iter().peekable(), others.into_iter().peekable());
    let mut out = Vec::new();
    loop {
        let other_first = match (others.peek(), listed.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(next)) => {
                let places = before.find(other).zip(before.find(next));
                places.is_some_and(|(other, next)| other < next)
            }
        };
        out.extend(if other_first { others.next() } else { listed.next() });
    }
}
