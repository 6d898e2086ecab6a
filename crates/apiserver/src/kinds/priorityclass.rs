//! PriorityClass: how important pods are.

use bowline_api::Meta;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

use super::check::{self, same};
use super::{Column, Names, Rules, age, column};
use crate::field::Invalid;

/// What a class does when nothing else fits.
pub const PREEMPT: &str = "PreemptLowerPriority";
pub const POLICIES: [&str; 2] = [PREEMPT, "Never"];
const HIGHEST_OF_USERS: i32 = 1_000_000_000;
/// Names with this prefix are the cluster's own.
const SYSTEM_PREFIX: &str = "system-";
/// Every cluster has these.
const SYSTEM: [(&str, i32, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

const COLUMNS: &[Column] = &[
    column::NAME,
    column::number("Value", "Priority of pods of this class; more is more important."),
    column::flag("Global-Default", "Whether pods that name no class get this one."),
    column::AGE,
    column::text("PreemptionPolicy", "Whether pods of this class may push others away."),
];

/// The classes to start a cluster with.
pub fn system_classes() -> impl Iterator<Item = Value> {
    SYSTEM.into_iter().map(|(name, value, description)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description,
        })
    })
}

pub fn is_system(name: &str) -> bool {
    SYSTEM.iter().any(|(known, ..)| *known == name)
}

pub struct PriorityClassRules;

impl Rules for PriorityClassRules {
    type Object = PriorityClass;
    const NAMES: Names =
        Names { plural: "priorityclasses", singular: "priorityclass", short: &["pc"], categories: &[] };
    const NAMESPACED: bool = false;
    const GENERATION: bool = true;

    fn default_fields(class: &mut PriorityClass) {
        class.preemption_policy.get_or_insert_with(|| PREEMPT.into());
    }

    fn validate(class: &PriorityClass) -> Vec<Invalid> {
        let mut errors: Vec<Invalid> = reserved(class).into_iter().collect();
        let policy = class.preemption_policy.as_deref();
        errors.extend(policy.and_then(|policy| check::one_of("preemptionPolicy", policy, &POLICIES)));
        errors
    }

    /// Pods carry the value, so it may not change under them.
    fn validate_change(new: &PriorityClass, old: &PriorityClass) -> Vec<Invalid> {
        let changed = (value(new) != value(old))
            .then(|| Invalid::forbidden("value", "may not be changed in an update."));
        let policy = same::immutable("preemptionPolicy", &new.preemption_policy, &old.preemption_policy);
        changed.into_iter().chain(policy).collect()
    }

    fn delete_refusal(class: &PriorityClass) -> Option<&'static str> {
        is_system(class.name()).then_some("this is a system priority class and cannot be deleted")
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(class: &PriorityClass, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            class.name().into(),
            value(class).into(),
            class.global_default.unwrap_or(false).into(),
            age::age(&class.metadata, now).into(),
            class.preemption_policy.as_deref().unwrap_or_default().into(),
        ]
    }
}

fn value(class: &PriorityClass) -> i32 {
    class.value.unwrap_or(0)
}

/// Names and values that are the cluster's own.
fn reserved(class: &PriorityClass) -> Option<Invalid> {
    let name = class.name();
    if !name.starts_with(SYSTEM_PREFIX) {
        let text = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        return (value(class) > HIGHEST_OF_USERS).then(|| Invalid::forbidden("value", text));
    }
    let wrong = match SYSTEM.iter().find(|(known, ..)| *known == name) {
        None => format!("{name} is not a known system priority class"),
        Some((_, fixed, _)) if *fixed != value(class) => {
            format!("value of {name} PriorityClass must be {fixed}")
        }
        Some(_) if class.global_default == Some(true) => {
            format!("globalDefault of {name} PriorityClass must be false")
        }
        Some(_) => return None,
    };
    let text = format!(
        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {wrong}"
    );
    Some(Invalid::forbidden("metadata.name", text))
}
