//! Fields that somebody else has set, and how upstream speaks of them.

use std::collections::BTreeSet;

use super::managers::{Manager, Managers, Operation};
use super::set::{Set, print};
use crate::status::{Cause, Status};

/// One field of another manager.
#[derive(Debug, Clone, PartialEq)]
struct Conflict {
    manager: Manager,
    /// As people read it, e.g. `.spec.replicas`.
    field: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// Managers that have set what changes.
    pub fn find(managers: &Managers, changed: &Set) -> Self {
        let mut found = Vec::new();
        for entry in &managers.0 {
            let taken = entry.set.intersection(changed);
            let conflict = |path: Vec<&str>| Conflict { manager: entry.manager.clone(), field: print(&path) };
            found.extend(taken.paths().into_iter().map(conflict));
        }
        found.sort_by_key(|conflict| describe(&conflict.manager));
        Self(found)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Without those at these fields.
    pub fn except(&self, allowed: &Set) -> Self {
        let allowed: BTreeSet<String> = allowed.paths().iter().map(|path| print(path)).collect();
        Self(self.0.iter().filter(|conflict| !allowed.contains(&conflict.field)).cloned().collect())
    }

    fn message(&self) -> String {
        if let [one] = &self.0[..] {
            let manager = describe(&one.manager);
            return format!("Apply failed with 1 conflict: conflict with {manager}: {}", one.field);
        }
        let mut lines = Vec::new();
        let mut last = None;
        for conflict in &self.0 {
            let manager = describe(&conflict.manager);
            if last.as_ref() != Some(&manager) {
                lines.push(format!("conflicts with {manager}:"));
                last = Some(manager);
            }
            lines.push(format!("- {}", conflict.field));
        }
        format!("Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

fn describe(manager: &Manager) -> String {
    let mut text = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", manager.subresource));
    }
    if manager.operation == Operation::Update {
        text.push_str(&format!(" using {}", manager.api_version));
    }
    text
}

impl From<Conflicts> for Status {
    fn from(conflicts: Conflicts) -> Self {
        let mut status = Self::apply_conflict(conflicts.message());
        status.details.causes = conflicts
            .0
            .iter()
            .map(|conflict| Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {}", describe(&conflict.manager)),
                field: conflict.field.clone(),
            })
            .collect();
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Done badly this takes minutes.
    #[test]
    fn very_many_conflicts() {
        let fields = |range: std::ops::Range<u32>| -> Set {
            let fields: Value = range.map(|n| (format!("f:{n}"), serde_json::json!({}))).collect();
            Set::from_client(&fields).expect("a set")
        };
        let manager = Manager {
            name: "a".into(),
            operation: Operation::Update,
            api_version: "v1".into(),
            subresource: String::new(),
        };
        let found = |range: std::ops::Range<u32>| {
            let conflict = |n| Conflict { manager: manager.clone(), field: format!(".{n}") };
            Conflicts(range.map(conflict).collect())
        };
        let (all, want, allowed) = (found(0..80_000), found(60_000..80_000), fields(0..60_000));
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(all.except(&allowed)));
        assert_eq!(wait.recv_timeout(std::time::Duration::from_secs(30)), Ok(want));
    }
}
