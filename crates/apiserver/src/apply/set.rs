//! Sets of fields, as `managedFields` spells them.
//!
//! A path is a row of elements: `f:name` for a field or key, `k:{"name":"x"}` for an element of a list that is told
//! apart by keys, `v:"x"` for an element of a set. In JSON a set is a tree of objects; `.` marks a node that belongs
//! to the set itself and not only through what is below it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Marks a node with children as a member.
const SELF: &str = ".";
/// Deeper than any object; a hostile set must not exhaust the stack.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Set {
    children: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Node {
    member: bool,
    below: Set,
}

impl Set {
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub fn insert(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.children.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    pub fn has(&self, path: &[String]) -> bool {
        match path.split_first() {
            None => false,
            Some((first, rest)) => self.children.get(first).is_some_and(|node| match rest {
                [] => node.member,
                rest => node.below.has(rest),
            }),
        }
    }

    /// Whether anything at or below the path is in the set.
    pub fn reaches(&self, path: &[String]) -> bool {
        match path.split_first() {
            None => !self.is_empty(),
            Some((first, rest)) => self.children.get(first).is_some_and(|node| match rest {
                [] => node.member || !node.below.is_empty(),
                rest => node.below.reaches(rest),
            }),
        }
    }

    pub fn union(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.children {
            let node = self.children.entry(element.clone()).or_default();
            node.member |= theirs.member;
            node.below = std::mem::take(&mut node.below).union(&theirs.below);
        }
        self
    }

    pub fn without(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && !theirs, true)
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && theirs, false)
    }

    /// `alone` says whether what only this set has stays.
    fn combine(&self, other: &Self, keep: fn(bool, bool) -> bool, alone: bool) -> Self {
        let mut out = Self::default();
        for (element, mine) in &self.children {
            let node = match other.children.get(element) {
                Some(theirs) => Node {
                    member: keep(mine.member, theirs.member),
                    below: mine.below.combine(&theirs.below, keep, alone),
                },
                None if alone => mine.clone(),
                None => continue,
            };
            if node.member || !node.below.is_empty() {
                out.children.insert(element.clone(), node);
            }
        }
        out
    }

    /// Without these whole branches.
    pub fn prune(mut self, branches: &[&[&str]]) -> Self {
        for branch in branches {
            self.cut(branch);
        }
        self
    }

    fn cut(&mut self, branch: &[&str]) {
        let Some((first, rest)) = branch.split_first() else { return };
        let element = format!("f:{first}");
        if rest.is_empty() {
            self.children.remove(&element);
            return;
        }
        if let Some(node) = self.children.get_mut(&element) {
            node.below.cut(rest);
            if !node.member && node.below.is_empty() {
                self.children.remove(&element);
            }
        }
    }

    /// `metadata` itself is in every object; owning it bare means nothing.
    pub fn drop_bare_metadata(mut self) -> Self {
        if let Some(node) = self.children.get_mut("f:metadata") {
            node.member = false;
            if node.below.is_empty() {
                self.children.remove("f:metadata");
            }
        }
        self
    }

    /// Every member, in order.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, path: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
        for (element, node) in &self.children {
            path.push(element.clone());
            if node.member {
                out.push(path.clone());
            }
            node.below.collect(path, out);
            path.pop();
        }
    }

    pub fn to_json(&self) -> Value {
        let entry = |(element, node): (&String, &Node)| {
            let mut below = match node.below.to_json() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if node.member && !below.is_empty() {
                below.insert(SELF.into(), Value::Object(Map::new()));
            }
            (element.clone(), Value::Object(below))
        };
        Value::Object(self.children.iter().map(entry).collect())
    }

    /// `None` for what is no set.
    pub fn from_json(value: &Value) -> Option<Self> {
        Self::read(value, 0)
    }

    fn read(value: &Value, depth: usize) -> Option<Self> {
        let object = value.as_object().filter(|_| depth < DEPTH_MAX)?;
        let mut set = Self::default();
        for (element, below) in object.iter().filter(|(element, _)| *element != SELF) {
            let known = matches!(element.get(..2), Some("f:" | "k:" | "v:" | "i:"));
            let children = below.as_object().filter(|_| known)?;
            let member = children.is_empty() || children.contains_key(SELF);
            let node = Node { member, below: Self::read(below, depth + 1)? };
            set.children.insert(element.clone(), node);
        }
        Some(set)
    }
}

/// A path as upstream prints it in conflicts: `.spec.containers[name="a"].image`.
pub fn print(path: &[String]) -> String {
    let mut out = String::new();
    for element in path {
        let (kind, rest) = element.split_at_checked(2).unwrap_or(("f:", element));
        match kind {
            "k:" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                out.push_str(&format!("[{}]", keys.join(",")));
            }
            "v:" => out.push_str(&format!("[={rest}]")),
            "i:" => out.push_str(&format!("[{rest}]")),
            _ => out.push_str(&format!(".{rest}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> Set {
        Set::from_json(&value).expect("a set")
    }

    #[test]
    fn json_there_and_back() {
        let text = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}},
        });
        assert_eq!(set(text.clone()).to_json(), text);
        assert_eq!(set(json!({})).to_json(), json!({}));
        assert_eq!(Set::from_json(&json!({"x": {}})), None);
        assert_eq!(Set::from_json(&json!({"f:x": 1})), None);
    }

    #[test]
    fn algebra() {
        let left = set(json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}}));
        let right = set(json!({"f:b": {"f:c": {}, "f:d": {}}}));
        assert_eq!(
            left.clone().union(&right),
            set(json!({"f:a": {}, "f:b": {".": {}, "f:c": {}, "f:d": {}}}))
        );
        assert_eq!(left.without(&right), set(json!({"f:a": {}, "f:b": {}})));
        assert_eq!(left.intersection(&right), set(json!({"f:b": {"f:c": {}}})));
    }

    #[test]
    fn paths_for_people() {
        let path = ["f:spec", "f:containers", "k:{\"name\":\"a\"}", "f:args", "v:\"x\""].map(str::to_owned);
        assert_eq!(print(&path), ".spec.containers[name=\"a\"].args[=\"x\"]");
    }
}
