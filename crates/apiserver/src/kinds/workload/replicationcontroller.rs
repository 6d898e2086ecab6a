//! ReplicationController: what replica sets were called before they had sets in their selectors.

use std::collections::BTreeMap;

use bowline_api::Meta;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::replicaset::{COLUMNS, replica_errors};
use super::{Counts, template};
use crate::field::Invalid;
use crate::kinds::check;
use crate::kinds::pod::spec;
use crate::kinds::{Column, Dependents, Names, Rules, age};
use crate::registry::Scale;

pub struct ReplicationControllerRules;

impl Rules for ReplicationControllerRules {
    type Object = ReplicationController;
    const NAMES: Names = Names {
        plural: "replicationcontrollers",
        singular: "replicationcontroller",
        short: &["rc"],
        categories: &["all"],
    };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const GENERATION: bool = true;
    const DEPENDENTS: Dependents = Dependents::Orphan;
    const FIELD_LABELS: &'static [&'static str] = &["status.replicas"];

    fn scale() -> Option<Scale> {
        Some(super::replicas())
    }

    fn default_fields(controller: &mut ReplicationController) {
        let spec = controller.spec.get_or_insert_default();
        spec.replicas.get_or_insert(1);
        if let Some(template) = &mut spec.template {
            template::fill(template);
            if spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
                spec.selector = template::labels(template).cloned();
            }
            template::lend_labels(&mut controller.metadata, Some(template));
        }
    }

    fn prepare_create(controller: &mut ReplicationController, _now: jiff::Timestamp) {
        controller.status = None;
    }

    fn prepare_update(new: &mut ReplicationController, old: &ReplicationController) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut ReplicationController, old: &ReplicationController, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(controller: &ReplicationController) -> Vec<Invalid> {
        let spec = controller.spec.clone().unwrap_or_default();
        let negative =
            |field: &str, count: Option<i32>| check::non_negative(field, count.unwrap_or(0).into());
        let mut errors: Vec<Invalid> =
            negative("spec.minReadySeconds", spec.min_ready_seconds).into_iter().collect();
        let selector = LabelSelector { match_labels: spec.selector.clone(), match_expressions: None };
        let empty = template::is_empty(&selector);
        if empty {
            errors.push(Invalid::required(template::SELECTOR, ""));
        }
        errors.extend(negative("spec.replicas", spec.replicas));
        let Some(template) = &spec.template else {
            errors.push(Invalid::required(template::AT, ""));
            return errors;
        };
        if !empty {
            errors.extend(template::mismatch(template::AT, &selector, template));
        }
        errors.extend(spec::template_errors(template::AT, template));
        errors.extend(template::lasting_errors(template::AT, template, "ReplicationController"));
        errors
    }

    fn validate_status(new: &ReplicationController, _old: &ReplicationController) -> Vec<Invalid> {
        let status = new.status.clone().unwrap_or_default();
        replica_errors(&Counts(&[
            ("replicas", Some(status.replicas.into())),
            ("fullyLabeledReplicas", status.fully_labeled_replicas.map(Into::into)),
            ("readyReplicas", status.ready_replicas.map(Into::into)),
            ("availableReplicas", status.available_replicas.map(Into::into)),
            ("observedGeneration", status.observed_generation),
        ]))
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(controller: &ReplicationController, now: jiff::Timestamp) -> Vec<Value> {
        let spec = controller.spec.clone().unwrap_or_default();
        let status = controller.status.clone().unwrap_or_default();
        let [names, images] = template::shown(spec.template.as_ref());
        vec![
            controller.name().into(),
            spec.replicas.unwrap_or(0).into(),
            status.replicas.into(),
            status.ready_replicas.unwrap_or(0).into(),
            age::age(&controller.metadata, now).into(),
            names.into(),
            images.into(),
            template::shown_labels(spec.selector.as_ref()).into(),
        ]
    }

    fn field_labels(controller: &ReplicationController) -> Vec<(&'static str, String)> {
        let replicas = controller.status.as_ref().map_or(0, |status| status.replicas);
        vec![("status.replicas", replicas.to_string())]
    }
}
