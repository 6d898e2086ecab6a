//! The live object with everything that an applied one says.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::Kind;

pub fn merge(live: &Value, applied: &Value, kind: Kind<'_>) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if kind.divides_objects() => {
            Value::Object(objects(live, applied, kind))
        }
        (Value::Array(live), Value::Array(applied)) if kind.divides_lists() => {
            Value::Array(lists(live, applied, kind))
        }
        // Nothing to say is not the wish for nothing.
        (Value::Object(live), Value::Null) if kind.divides_objects() && !live.is_empty() => {
            Value::Object(live.clone())
        }
        (Value::Array(live), Value::Null) if kind.divides_lists() && !live.is_empty() => {
            Value::Array(live.clone())
        }
        (_, applied) => applied.clone(),
    }
}

fn objects(live: &Map<String, Value>, applied: &Map<String, Value>, kind: Kind<'_>) -> Map<String, Value> {
    let mut out = live.clone();
    for (name, value) in applied {
        let merged = match live.get(name) {
            Some(old) => merge(old, value, kind.member(name).unwrap_or(Kind::DEDUCED)),
            None => value.clone(),
        };
        out.insert(name.clone(), merged);
    }
    out
}

/// Applied elements take the order they are given in; live ones keep their place among them.
fn lists(live: &[Value], applied: &[Value], kind: Kind<'_>) -> Vec<Value> {
    let named = |items: &'_ [Value]| -> Vec<String> {
        items.iter().map(|item| kind.name_element(item).unwrap_or_default()).collect()
    };
    let (ours, theirs) = (named(live), named(applied));
    let mut positions: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    for (position, name) in ours.iter().enumerate() {
        // Elements that share a name are not merged with.
        positions.entry(name).and_modify(|found| *found = None).or_insert(Some(position));
    }
    // Where applied elements first stand.
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, name) in theirs.iter().enumerate() {
        wanted.entry(name).or_insert(position);
    }
    let merged = |at: usize| match positions.get(theirs[at].as_str()).copied().flatten() {
        Some(position) => merge(&live[position], &applied[at], kind.element()),
        None => applied[at].clone(),
    };
    let mut shared = theirs.iter().filter(|name| positions.contains_key(name.as_str())).peekable();
    let (mut left, mut right) = (0, 0);
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    while left < live.len() || right < applied.len() {
        if left < live.len() && right < applied.len() {
            if ours[left] == theirs[right] {
                out.push(merged(right));
                (left, right) = (left + 1, right + 1);
                shared.next();
                continue;
            }
            // Shared, but its turn comes later.
            if wanted.contains_key(ours[left].as_str())
                && shared.peek().is_some_and(|next| **next != ours[left])
            {
                left += 1;
                continue;
            }
        }
        if left < live.len() {
            match wanted.get(ours[left].as_str()) {
                None => {
                    out.push(live[left].clone());
                    left += 1;
                    continue;
                }
                Some(position) if *position < right => left += 1,
                Some(_) => {}
            }
        }
        if right < applied.len() {
            out.push(merged(right));
            if shared.peek().is_some_and(|next| **next == theirs[right]) {
                shared.next();
            }
            right += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Where upstream's merge puts elements.
    #[test]
    fn orders() {
        let containers =
            Kind::root("v1", "Pod", None).member("spec").and_then(|spec| spec.member("containers"));
        let kind = containers.expect("known");
        let list =
            |names: &str| -> Value { names.chars().map(|name| json!({"name": name.to_string()})).collect() };
        let cases = [
            ("abc", "xby", "axbcy"),
            ("", "ab", "ab"),
            ("ab", "ba", "ba"),
            ("abcd", "dcba", "dcba"),
            ("abc", "c", "abc"),
            ("abc", "cx", "abcx"),
            ("axb", "ba", "xba"),
            ("abc", "abc", "abc"),
        ];
        for (live, applied, want) in cases {
            assert_eq!(merge(&list(live), &list(applied), kind), list(want), "{live} {applied}");
        }
    }

    /// A body of a few megabytes must not keep a thread for minutes; this takes a moment or, done badly, far too long.
    #[test]
    fn long_lists() {
        let finalizers =
            Kind::root("v1", "Pod", None).member("metadata").and_then(|meta| meta.member("finalizers"));
        let kind = finalizers.expect("known");
        assert!(kind.divides_lists());
        let list = |range: std::ops::Range<u32>| -> Value { range.map(|n| format!("a.io/{n:06}")).collect() };
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(merge(&list(0..200_000), &list(100_000..300_000), kind)));
        let merged = wait.recv_timeout(std::time::Duration::from_secs(30)).expect("in time");
        assert_eq!(merged, list(0..300_000));
    }
}
