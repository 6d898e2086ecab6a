//! What a check objects to, in upstream's phrases.

use std::collections::BTreeSet;

/// One check that a pod does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub reason: &'static str,
    /// Which containers, volumes and values; may be empty.
    pub detail: String,
}

impl Violation {
    pub fn new(reason: &'static str, detail: String) -> Self {
        Self { reason, detail }
    }
}

/// Reasons alone, for many pods at once.
pub fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|one| one.reason).collect::<Vec<_>>().join(", ")
}

/// Reasons with their details.
pub fn details(violations: &[Violation]) -> String {
    let one = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Values without repetition, in order.
pub type Values<'a> = BTreeSet<&'a str>;

/// `"a", "b"`, without escapes.
pub fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{item}\"")).collect();
    items.join(", ")
}

pub fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}

/// `container "a"` or `containers "a", "b"`.
pub fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names.iter().copied()))
}

/// `pod and containers "a", "b"`, none if neither the pod nor a container does it.
pub fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".into()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}
