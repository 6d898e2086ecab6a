//! ReplicaSet: so many pods like this.

use bowline_api::Meta;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::Value;

use super::{Counts, template};
use crate::field::Invalid;
use crate::kinds::check::{self, same};
use crate::kinds::{Column, Names, Rules, age, column};
use crate::registry::Scale;

/// Shared with replication controllers, their elder brothers.
pub const COLUMNS: &[Column] = &[
    column::NAME,
    column::number("Desired", "How many pods are wanted."),
    column::number("Current", "How many pods there are."),
    column::number("Ready", "How many pods are ready."),
    column::AGE,
    column::wide(column::text("Containers", "Names of the containers.")),
    column::wide(column::text("Images", "Images of the containers.")),
    column::wide(column::text("Selector", "What finds the pods.")),
];

pub struct ReplicaSetRules;

impl Rules for ReplicaSetRules {
    type Object = ReplicaSet;
    const NAMES: Names =
        Names { plural: "replicasets", singular: "replicaset", short: &["rs"], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const GENERATION: bool = true;

    fn scale() -> Option<Scale> {
        Some(super::replicas())
    }

    fn default_fields(set: &mut ReplicaSet) {
        let spec = set.spec.get_or_insert_default();
        spec.replicas.get_or_insert(1);
        template::fill(spec.template.get_or_insert_default());
    }

    fn prepare_create(set: &mut ReplicaSet, _now: jiff::Timestamp) {
        set.status = None;
    }

    fn prepare_update(new: &mut ReplicaSet, old: &ReplicaSet) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut ReplicaSet, old: &ReplicaSet, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(set: &ReplicaSet) -> Vec<Invalid> {
        let spec = set.spec.clone().unwrap_or_default();
        let replicas = check::non_negative("spec.replicas", spec.replicas.unwrap_or(0).into());
        let ready = check::non_negative("spec.minReadySeconds", spec.min_ready_seconds.unwrap_or(0).into());
        let mut errors: Vec<Invalid> = replicas.into_iter().chain(ready).collect();
        errors.extend(template::pair_errors(
            &spec.selector,
            &spec.template.unwrap_or_default(),
            "ReplicaSet",
        ));
        errors
    }

    fn validate_update(new: &ReplicaSet, old: &ReplicaSet) -> Vec<Invalid> {
        let selector = |set: &ReplicaSet| set.spec.clone().unwrap_or_default().selector;
        same::immutable(template::SELECTOR, &selector(new), &selector(old)).into_iter().collect()
    }

    fn validate_status(new: &ReplicaSet, _old: &ReplicaSet) -> Vec<Invalid> {
        let status = new.status.clone().unwrap_or_default();
        replica_errors(&Counts(&[
            ("replicas", Some(status.replicas.into())),
            ("fullyLabeledReplicas", status.fully_labeled_replicas.map(Into::into)),
            ("readyReplicas", status.ready_replicas.map(Into::into)),
            ("availableReplicas", status.available_replicas.map(Into::into)),
            ("observedGeneration", status.observed_generation),
            ("terminatingReplicas", status.terminating_replicas.map(Into::into)),
        ]))
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(set: &ReplicaSet, now: jiff::Timestamp) -> Vec<Value> {
        let (spec, status) = (set.spec.clone().unwrap_or_default(), set.status.clone().unwrap_or_default());
        let [names, images] = template::shown(spec.template.as_ref());
        vec![
            set.name().into(),
            spec.replicas.unwrap_or(0).into(),
            status.replicas.into(),
            status.ready_replicas.unwrap_or(0).into(),
            age::age(&set.metadata, now).into(),
            names.into(),
            images.into(),
            template::shown_selector(&spec.selector).into(),
        ]
    }
}

/// What is reported of replicas; replication controllers report the same.
pub(super) fn replica_errors(counts: &Counts<'_>) -> Vec<Invalid> {
    let mut errors = counts.errors();
    for part in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        errors.extend(counts.at_most(part, "replicas", "status.replicas"));
    }
    errors.extend(counts.at_most("availableReplicas", "readyReplicas", "readyReplicas"));
    errors
}
