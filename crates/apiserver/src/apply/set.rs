//! Sets of fields, as `managedFields` spells them.
//!
//! A path is a row of elements: `f:name` for a field or key, `k:{"name":"x"}` for an element of a list that is told
//! apart by keys, `v:"x"` for an element of a set. A set is a tree of objects, kept as the JSON it is stored as, so
//! that an entry nobody touches is neither read nor written anew. An object without content is a member; `.` marks
//! a member that has others below it.

use serde_json::{Map, Value};

/// Marks a node with children as a member.
const SELF: &str = ".";
/// Deeper than any object; a hostile set must not exhaust the stack.
const DEPTH_MAX: usize = 128;

pub type Tree = Map<String, Value>;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Set(Tree);

/// One node on its way into a set.
#[derive(Debug, Default)]
pub struct Branch {
    pub member: bool,
    pub below: Tree,
}

impl Branch {
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    /// Hangs a node below this one, unless there is nothing to it.
    pub fn grow(&mut self, element: impl FnOnce() -> String, branch: Self) {
        if !branch.is_empty() {
            self.below.insert(element(), branch.into_node());
        }
    }

    fn into_node(self) -> Value {
        let mut below = self.below;
        if self.member && !below.is_empty() {
            below.insert(SELF.into(), Value::Object(Map::new()));
        }
        Value::Object(below)
    }
}

impl From<Branch> for Set {
    fn from(root: Branch) -> Self {
        Self(root.below)
    }
}

fn is_member(node: &Tree) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// What is below a node; nodes of a set are objects.
fn below(node: &Value) -> Option<&Tree> {
    node.as_object()
}

fn children(node: &Tree) -> impl Iterator<Item = (&String, &Tree)> {
    node.iter().filter(|(element, _)| *element != SELF).filter_map(|(name, node)| Some((name, below(node)?)))
}

/// Sets the mark so that it says what it should. False if nothing is left of the node.
fn settle(node: &mut Tree, member: bool) -> bool {
    node.remove(SELF);
    if member && !node.is_empty() {
        node.insert(SELF.into(), Value::Object(Map::new()));
    }
    member || !node.is_empty()
}

impl Set {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn tree(&self) -> &Tree {
        &self.0
    }

    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    /// Takes a stored set as it is.
    pub fn from_stored(value: Value) -> Self {
        match value {
            Value::Object(tree) => Self(tree),
            _ => Self::default(),
        }
    }

    /// A set that a client sent, spelled as we spell it. `None` for what is no set.
    pub fn from_client(value: &Value) -> Option<Self> {
        read(value, 0).map(Self)
    }

    pub fn add(&mut self, other: &Self) {
        add(&mut self.0, &other.0);
    }

    pub fn subtract(&mut self, other: &Self) {
        subtract(&mut self.0, &other.0);
    }

    pub fn without(mut self, other: &Self) -> Self {
        self.subtract(other);
        self
    }

    pub fn intersection(&self, other: &Self) -> Self {
        Self(intersection(&self.0, &other.0))
    }

    /// Cuts a whole branch.
    pub fn cut(&mut self, branch: &[&str]) {
        cut(&mut self.0, branch);
    }

    /// Removes one member and leaves what is below it.
    pub fn remove(&mut self, field: &str) {
        let element = format!("f:{field}");
        let Some(Value::Object(node)) = self.0.get_mut(&element) else { return };
        if !settle(node, false) {
            self.0.remove(&element);
        }
    }

    /// Every member, those of a level before what is below them, as upstream lists them.
    pub fn paths(&self) -> Vec<Vec<&str>> {
        let mut out = Vec::new();
        collect(&self.0, &mut Vec::new(), &mut out);
        out
    }
}

fn add(mine: &mut Tree, theirs: &Tree) {
    for (element, other) in children(theirs) {
        match mine.get_mut(element) {
            Some(Value::Object(node)) => {
                let member = is_member(node) || is_member(other);
                add(node, other);
                settle(node, member);
            }
            _ => _ = mine.insert(element.clone(), Value::Object(other.clone())),
        }
    }
}

fn subtract(mine: &mut Tree, theirs: &Tree) {
    for (element, other) in children(theirs) {
        let Some(Value::Object(node)) = mine.get_mut(element) else { continue };
        let member = is_member(node) && !is_member(other);
        subtract(node, other);
        if !settle(node, member) {
            mine.remove(element);
        }
    }
}

fn intersection(mine: &Tree, theirs: &Tree) -> Tree {
    let mut out = Branch::default();
    for (element, other) in children(theirs) {
        let Some(node) = mine.get(element).and_then(below) else { continue };
        let member = is_member(node) && is_member(other);
        out.grow(|| element.clone(), Branch { member, below: intersection(node, other) });
    }
    out.below
}

fn cut(tree: &mut Tree, branch: &[&str]) {
    let Some((first, rest)) = branch.split_first() else { return };
    let element = format!("f:{first}");
    if rest.is_empty() {
        tree.remove(&element);
        return;
    }
    let Some(Value::Object(node)) = tree.get_mut(&element) else { return };
    let member = is_member(node);
    cut(node, rest);
    if !settle(node, member) {
        tree.remove(&element);
    }
}

fn collect<'a>(tree: &'a Tree, path: &mut Vec<&'a str>, out: &mut Vec<Vec<&'a str>>) {
    for (element, node) in children(tree) {
        if is_member(node) {
            path.push(element);
            out.push(path.clone());
            path.pop();
        }
    }
    for (element, node) in children(tree) {
        path.push(element);
        collect(node, path, out);
        path.pop();
    }
}

fn read(value: &Value, depth: usize) -> Option<Tree> {
    let object = value.as_object().filter(|_| depth < DEPTH_MAX)?;
    let mut tree = Tree::new();
    for (element, below) in object {
        let element = if element == SELF { SELF.to_owned() } else { canonical(element)? };
        tree.insert(element, Value::Object(read(below, depth + 1)?));
    }
    Some(tree)
}

/// An element in the one spelling that compares equal.
fn canonical(element: &str) -> Option<String> {
    let (kind, rest) = element.split_at_checked(2)?;
    match kind {
        "f:" => Some(element.to_owned()),
        "k:" => serde_json::from_str::<Map<String, Value>>(rest).ok().map(named),
        "v:" => serde_json::from_str::<Value>(rest).ok().map(|value| format!("v:{value}")),
        "i:" => rest.parse::<i64>().ok().map(|index| format!("i:{index}")),
        _ => None,
    }
}

/// The element of a list that is told apart by these keys, which are sorted as upstream sorts them.
pub fn named(keys: Map<String, Value>) -> String {
    format!("k:{}", Value::Object(keys))
}

/// A path as upstream prints it in conflicts: `.spec.containers[name="a"].image`.
pub fn print(path: &[&str]) -> String {
    path.iter().map(|element| print_element(element)).collect()
}

pub fn print_element(element: &str) -> String {
    let (kind, rest) = element.split_at_checked(2).unwrap_or(("f:", element));
    match kind {
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        "v:" => format!("[={rest}]"),
        "i:" => format!("[{rest}]"),
        _ => format!(".{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> Set {
        Set::from_client(&value).expect("a set")
    }

    #[test]
    fn json_there_and_back() {
        let text = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}},
        });
        assert_eq!(set(text.clone()).into_json(), text);
        assert_eq!(set(json!({})).into_json(), json!({}));
        for no_set in [json!({"x": {}}), json!({"f:x": 1}), json!({"k:x": {}}), json!({"i:x": {}}), json!([])]
        {
            assert_eq!(Set::from_client(&no_set), None, "{no_set}");
        }
        let spelled = set(json!({"k:{ \"b\": 1, \"a\" : \"x\" }": {}, "v: \"y\"": {}}));
        assert_eq!(spelled, set(json!({"k:{\"a\":\"x\",\"b\":1}": {}, "v:\"y\"": {}})));
    }

    #[test]
    fn a_set_without_end_is_no_set() {
        let mut deep = json!({});
        for _ in 0..1000 {
            deep = json!({"f:x": deep});
        }
        assert_eq!(Set::from_client(&deep), None);
    }

    #[test]
    fn algebra() {
        let left = set(json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}}));
        let right = set(json!({"f:b": {"f:c": {}, "f:d": {}}}));
        let mut both = left.clone();
        both.add(&right);
        assert_eq!(both, set(json!({"f:a": {}, "f:b": {".": {}, "f:c": {}, "f:d": {}}})));
        assert_eq!(left.clone().without(&right), set(json!({"f:a": {}, "f:b": {}})));
        assert_eq!(left.intersection(&right), set(json!({"f:b": {"f:c": {}}})));

        // A member without others below it keeps being one when some arrive, and stays one when they go.
        let mut leaf = set(json!({"f:b": {}}));
        leaf.add(&right);
        assert_eq!(leaf, set(json!({"f:b": {".": {}, "f:c": {}, "f:d": {}}})));
        assert_eq!(leaf.without(&right), set(json!({"f:b": {}})));
        assert!(right.clone().without(&right).is_empty());
    }

    #[test]
    fn branches_are_cut() {
        let mut left = set(json!({"f:a": {}, "f:b": {".": {}, "f:c": {"f:d": {}}}, "f:e": {"f:f": {}}}));
        left.cut(&["b", "c"]);
        left.cut(&["e", "f"]);
        left.cut(&["absent", "too"]);
        assert_eq!(left, set(json!({"f:a": {}, "f:b": {}})));
        let mut bare = set(json!({"f:metadata": {".": {}, "f:labels": {}}, "f:x": {}}));
        bare.remove("metadata");
        bare.remove("x");
        assert_eq!(bare, set(json!({"f:metadata": {"f:labels": {}}})));
    }

    #[test]
    fn paths_for_people() {
        let path = ["f:spec", "f:containers", "k:{\"name\":\"a\"}", "f:args", "v:\"x\"", "i:3"];
        assert_eq!(print(&path), ".spec.containers[name=\"a\"].args[=\"x\"][3]");
        let nested = set(json!({"f:a": {"f:b": {}}, "f:z": {}}));
        assert_eq!(nested.paths(), [vec!["f:z"], vec!["f:a", "f:b"]]);
    }
}
