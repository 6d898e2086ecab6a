//! Decision table.

use std::sync::Arc;

use bowline_machinery::Step;
use serde_json::json;

use super::decide;
use super::model::{Action, Observed};

fn seen(ready: &str, taints: &[(&str, &str)]) -> Observed {
    let taints: Vec<_> = taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
    let conditions = if ready.is_empty() { json!([]) } else { json!([{"type": "Ready", "status": ready}]) };
    let node =
        json!({"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": {"conditions": conditions}});
    Observed { node: Arc::new(serde_json::from_value(node).unwrap()) }
}

const NOT_READY: (&str, &str) = ("node.kubernetes.io/not-ready", "NoSchedule");
const UNREACHABLE: (&str, &str) = ("node.kubernetes.io/unreachable", "NoSchedule");
const MINE: (&str, &str) = ("mine", "NoSchedule");
const EVICTS: (&str, &str) = ("node.kubernetes.io/not-ready", "NoExecute");

#[test]
fn taints_follow_the_condition() {
    type Taints = [(&'static str, &'static str)];
    let table: [(&str, &Taints, Option<&Taints>); 9] = [
        ("True", &[], None),
        ("True", &[NOT_READY, MINE], Some(&[MINE])),
        ("True", &[UNREACHABLE], Some(&[])),
        ("True", &[EVICTS], None),
        ("False", &[MINE], Some(&[MINE, NOT_READY])),
        ("False", &[NOT_READY], None),
        ("Unknown", &[NOT_READY], Some(&[UNREACHABLE])),
        ("", &[NOT_READY], None),
        ("", &[], Some(&[NOT_READY])),
    ];
    for (ready, taints, expected) in table {
        let step = decide(&seen(ready, taints));
        let set = match &step {
            Step::Do(Action::SetTaints(set)) => {
                Some(set.iter().map(|t| (t.key.as_str(), t.effect.as_str())).collect())
            }
            _ => None,
        };
        assert_eq!(set, expected.map(<[_]>::to_vec), "{ready} {taints:?}: {step:?}");
    }
}
