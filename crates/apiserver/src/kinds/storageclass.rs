//! StorageClass: how volumes of a kind are made.

use bowline_api::{Meta, StorageClass, volume};
use serde_json::Value;

use super::check::same::immutable;
use super::check::{self, parameters, selectors};
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const POLICIES: [&str; 2] = ["Delete", "Retain"];
const BINDING_MODES: [&str; 2] = ["Immediate", volume::WAIT_FOR_FIRST_CONSUMER];

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Provisioner", "Who makes the volumes."),
    column::text("ReclaimPolicy", "What happens to a volume when its claim is gone."),
    column::text("VolumeBindingMode", "When volumes are made and bound."),
    column::text("AllowVolumeExpansion", "Whether claims may grow."),
    column::AGE,
];

pub struct StorageClassRules;

impl Rules for StorageClassRules {
    type Object = StorageClass;
    const NAMES: Names =
        Names { plural: "storageclasses", singular: "storageclass", short: &["sc"], categories: &[] };
    const NAMESPACED: bool = false;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn default_fields(class: &mut StorageClass) {
        class.reclaim_policy.get_or_insert_with(|| "Delete".into());
        class.volume_binding_mode.get_or_insert_with(|| "Immediate".into());
    }

    fn validate(class: &StorageClass) -> Vec<Invalid> {
        let mut errors = parameters::provisioner("provisioner", &class.provisioner);
        errors.extend(parameters::errors("parameters", class.parameters.as_ref()));
        let policy = class.reclaim_policy.as_deref().filter(|policy| !policy.is_empty());
        errors.extend(policy.and_then(|policy| check::one_of("reclaimPolicy", policy, &POLICIES)));
        errors.extend(match &class.volume_binding_mode {
            None => Some(Invalid::required("volumeBindingMode", "")),
            Some(mode) => check::one_of("volumeBindingMode", mode, &BINDING_MODES),
        });
        let terms = class.allowed_topologies.as_deref().unwrap_or_default();
        errors.extend(selectors::topology_terms("allowedTopologies", terms));
        errors
    }

    fn validate_update(new: &StorageClass, old: &StorageClass) -> Vec<Invalid> {
        let fixed = [
            immutable("parameters", &new.parameters, &old.parameters),
            immutable("provisioner", &new.provisioner, &old.provisioner),
            immutable("reclaimPolicy", &new.reclaim_policy, &old.reclaim_policy),
            immutable("volumeBindingMode", &new.volume_binding_mode, &old.volume_binding_mode),
        ];
        fixed.into_iter().flatten().collect()
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(class: &StorageClass, now: jiff::Timestamp) -> Vec<Value> {
        let marked = if volume::is_default_class(class) { " (default)" } else { "" };
        vec![
            format!("{}{marked}", class.name()).into(),
            class.provisioner.as_str().into(),
            class.reclaim_policy.as_deref().unwrap_or("Delete").into(),
            class.volume_binding_mode.as_deref().unwrap_or("Immediate").into(),
            class.allow_volume_expansion.unwrap_or(false).into(),
            age::age(&class.metadata, now).into(),
        ]
    }
}
