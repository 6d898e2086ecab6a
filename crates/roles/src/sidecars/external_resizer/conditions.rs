//! Conditions of claims: how they are merged, and the strategic merge patch of the difference. Pure.

use bowline_api::expansion::RESIZE_CONDITIONS;
use k8s_openapi::api::core::v1::PersistentVolumeClaimCondition as Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

/// A condition that holds since now.
pub(super) fn holds(type_: &str, now: &Time, message: Option<String>) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(now.clone()),
        message,
        ..Condition::default()
    }
}

/// Conditions of an expansion: `new` replaces what has its type, and the other resize conditions stay only if they are to be
/// kept. Conditions of other controllers stay as they are.
pub(super) fn with_resize(old: &[Condition], new: Option<Condition>, keep: bool) -> Vec<Condition> {
    let mut new = new;
    let mut merged = Vec::new();
    for condition in old {
        if new.as_ref().is_some_and(|new| new.type_ == condition.type_) {
            merged.extend(new.take());
        } else if keep || !RESIZE_CONDITIONS.contains(&condition.type_.as_str()) {
            merged.push(condition.clone());
        }
    }
    merged.extend(new);
    merged
}

/// Conditions of a change of the attributes class: the time of transition changes only with status or reason, the time of
/// the probe always.
pub(super) fn with_modify(old: &[Condition], new: Vec<Condition>, now: &Time) -> Vec<Condition> {
    let mut merged = old.to_vec();
    for mut condition in new {
        condition.last_probe_time = Some(now.clone());
        condition.last_transition_time = Some(now.clone());
        match merged.iter_mut().find(|old| old.type_ == condition.type_) {
            Some(old) => {
                if old.reason == condition.reason && old.status == condition.status {
                    condition.last_transition_time.clone_from(&old.last_transition_time);
                }
                *old = condition;
            }
            None => merged.push(condition),
        }
    }
    merged
}

pub(super) fn without(old: &[Condition], types: &[&str]) -> Vec<Condition> {
    old.iter().filter(|condition| !types.contains(&condition.type_.as_str())).cloned().collect()
}

/// The entries of a strategic merge patch that turn `old` into `new`: lists of conditions are merged by type.
pub(super) fn patch(old: &[Condition], new: &[Condition]) -> Vec<Value> {
    let before = |type_: &str| old.iter().find(|condition| condition.type_ == type_);
    let changed = new.iter().filter_map(|condition| match before(&condition.type_) {
        Some(old) if old == condition => None,
        old => Some(changed_fields(old, condition)),
    });
    let removed = old.iter().filter(|old| !new.iter().any(|condition| condition.type_ == old.type_));
    let removed = removed.map(|condition| json!({"$patch": "delete", "type": condition.type_}));
    changed.chain(removed).collect()
}

/// The new condition; fields that only the old one has are set to null.
fn changed_fields(old: Option<&Condition>, new: &Condition) -> Value {
    let mut fields: Map<String, Value> = Map::new();
    if let Some(Value::Object(old)) = old.map(|old| json!(old)) {
        fields.extend(old.into_iter().map(|(name, _)| (name, Value::Null)));
    }
    if let Value::Object(new) = json!(new) {
        fields.extend(new);
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use bowline_api::expansion::{
        CONTROLLER_RESIZE_ERROR, FILE_SYSTEM_RESIZE_PENDING, MODIFY_VOLUME_ERROR, MODIFYING_VOLUME,
        NODE_RESIZE_ERROR, RESIZING,
    };

    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }
    fn types(conditions: &[Condition]) -> Vec<&str> {
        conditions.iter().map(|condition| condition.type_.as_str()).collect()
    }
    fn all() -> Vec<Condition> {
        [RESIZING, MODIFYING_VOLUME, CONTROLLER_RESIZE_ERROR, NODE_RESIZE_ERROR, "Foreign"]
            .map(|type_| holds(type_, &at(1), Some("old".into())))
            .to_vec()
    }

    #[test]
    fn edge_4_8_8_conditions_of_other_controllers_are_kept() {
        let resizing = || Some(holds(RESIZING, &at(2), None));
        let dropped = with_resize(&all(), resizing(), false);
        assert_eq!(types(&dropped), [RESIZING, MODIFYING_VOLUME, "Foreign"]);
        assert_eq!(dropped[0], holds(RESIZING, &at(2), None), "replaced");
        assert_eq!(types(&with_resize(&all(), None, false)), [MODIFYING_VOLUME, "Foreign"]);
        let pending = Some(holds(FILE_SYSTEM_RESIZE_PENDING, &at(2), None));
        assert_eq!(with_resize(&all(), pending.clone(), true).len(), 6, "kept, and one more");
        assert_eq!(types(&with_resize(&[], pending, true)), [FILE_SYSTEM_RESIZE_PENDING]);
    }

    #[test]
    fn transition_times_of_a_modification_change_with_status_and_reason_only() {
        let error = |reason: &str| Condition {
            reason: Some(reason.into()),
            ..holds(MODIFY_VOLUME_ERROR, &at(0), Some("text".into()))
        };
        let first = with_modify(&[], vec![error("Internal")], &at(1));
        let same = with_modify(&first, vec![error("Internal")], &at(2));
        let other = with_modify(&same, vec![error("Aborted")], &at(3));
        let times = |conditions: &[Condition]| {
            (conditions[0].last_transition_time.clone(), conditions[0].last_probe_time.clone())
        };
        assert_eq!(times(&first), (Some(at(1)), Some(at(1))));
        assert_eq!(times(&same), (Some(at(1)), Some(at(2))));
        assert_eq!(times(&other), (Some(at(3)), Some(at(3))));
    }

    #[test]
    fn a_patch_names_what_changed_and_deletes_by_type() {
        let old = [holds(RESIZING, &at(1), Some("old".into())), holds(NODE_RESIZE_ERROR, &at(1), None)];
        let new = [holds(RESIZING, &at(2), None), holds("New", &at(2), None)];
        let expected = json!([
            {"type": "Resizing", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z", "message": null},
            {"type": "New", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"},
            {"$patch": "delete", "type": "NodeResizeError"},
        ]);
        assert_eq!(json!(patch(&old, &new)), expected);
        assert_eq!(patch(&old, &old), Vec::<Value>::new());
    }
}
