//! Deployment: replica sets that follow each other.

use bowline_api::Meta;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, DeploymentStrategy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::{Counts, collisions, template};
use crate::field::{Invalid, Reason};
use crate::kinds::check::{self, go, percent, same};
use crate::kinds::{Column, Names, Rules, age, column};
use crate::registry::Scale;

const RECREATE: &str = "Recreate";
const ROLLING: &str = "RollingUpdate";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Ready", "How many of the wanted pods are ready."),
    column::text("Up-to-date", "How many pods are made from the current template."),
    column::text("Available", "How many pods are ready for long enough."),
    column::AGE,
    column::wide(column::text("Containers", "Names of the containers.")),
    column::wide(column::text("Images", "Images of the containers.")),
    column::wide(column::text("Selector", "What finds the pods.")),
];

pub struct DeploymentRules;

impl Rules for DeploymentRules {
    type Object = Deployment;
    const NAMES: Names =
        Names { plural: "deployments", singular: "deployment", short: &["deploy"], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const GENERATION: bool = true;

    fn scale() -> Option<Scale> {
        Some(super::replicas())
    }

    fn default_fields(deployment: &mut Deployment) {
        let spec = deployment.spec.get_or_insert_default();
        spec.replicas.get_or_insert(1);
        let strategy = spec.strategy.get_or_insert_default();
        if strategy.type_.as_deref().unwrap_or_default().is_empty() {
            strategy.type_ = Some(ROLLING.into());
        }
        if strategy.type_.as_deref() == Some(ROLLING) {
            let rolling = strategy.rolling_update.get_or_insert_default();
            let quarter = || IntOrString::String("25%".into());
            rolling.max_unavailable.get_or_insert_with(quarter);
            rolling.max_surge.get_or_insert_with(quarter);
        }
        spec.revision_history_limit.get_or_insert(10);
        spec.progress_deadline_seconds.get_or_insert(600);
        template::fill(&mut spec.template);
    }

    fn prepare_create(deployment: &mut Deployment, _now: jiff::Timestamp) {
        deployment.status = None;
    }

    fn prepare_update(new: &mut Deployment, old: &Deployment) {
        new.status = old.status.clone();
    }

    /// Labels belong to the spec here: they say which pods are whose.
    fn prepare_status(new: &mut Deployment, old: &Deployment, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
        new.metadata.labels = old.metadata.labels.clone();
    }

    fn validate(deployment: &Deployment) -> Vec<Invalid> {
        let spec = deployment.spec.clone().unwrap_or_default();
        let negative = |field: &str, count: Option<i32>| {
            check::non_negative(&format!("spec.{field}"), count.unwrap_or(0).into())
        };
        let mut errors: Vec<Invalid> = negative("replicas", spec.replicas).into_iter().collect();
        errors.extend(template::pair_errors(&spec.selector, &spec.template, "ReplicaSet"));
        errors.extend(strategy_errors(&spec.strategy.unwrap_or_default()));
        errors.extend(negative("minReadySeconds", spec.min_ready_seconds));
        errors.extend(negative("revisionHistoryLimit", spec.revision_history_limit));
        errors.extend(negative("progressDeadlineSeconds", spec.progress_deadline_seconds));
        let (deadline, ready) = (spec.progress_deadline_seconds, spec.min_ready_seconds.unwrap_or(0));
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready) {
            let text = "must be greater than minReadySeconds";
            errors.push(Invalid::invalid("spec.progressDeadlineSeconds", deadline, text));
        }
        errors
    }

    fn validate_update(new: &Deployment, old: &Deployment) -> Vec<Invalid> {
        let selector = |deployment: &Deployment| deployment.spec.clone().unwrap_or_default().selector;
        same::immutable(template::SELECTOR, &selector(new), &selector(old)).into_iter().collect()
    }

    fn validate_status(new: &Deployment, old: &Deployment) -> Vec<Invalid> {
        let count =
            |deployment: &Deployment| deployment.status.as_ref().and_then(|status| status.collision_count);
        let mut errors = status_errors(&new.status.clone().unwrap_or_default());
        errors.extend(collisions(count(new), count(old)));
        errors
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(deployment: &Deployment, now: jiff::Timestamp) -> Vec<Value> {
        let spec = deployment.spec.clone().unwrap_or_default();
        let status = deployment.status.clone().unwrap_or_default();
        let [names, images] = template::shown(Some(&spec.template));
        let (ready, wanted) = (status.ready_replicas.unwrap_or(0), spec.replicas.unwrap_or(0));
        vec![
            deployment.name().into(),
            format!("{ready}/{wanted}").into(),
            status.updated_replicas.unwrap_or(0).into(),
            status.available_replicas.unwrap_or(0).into(),
            age::age(&deployment.metadata, now).into(),
            names.into(),
            images.into(),
            check::selectors::text(&spec.selector).into(),
        ]
    }
}

fn strategy_errors(strategy: &DeploymentStrategy) -> Vec<Invalid> {
    let at = "spec.strategy.rollingUpdate";
    match (strategy.type_.as_deref().unwrap_or_default(), &strategy.rolling_update) {
        (RECREATE, None) => Vec::new(),
        (RECREATE, Some(_)) => {
            vec![Invalid::forbidden(at, "may not be specified when strategy `type` is 'Recreate'")]
        }
        (ROLLING, Some(rolling)) => {
            let zero = IntOrString::Int(0);
            let away = rolling.max_unavailable.as_ref().unwrap_or(&zero);
            let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
            let field = format!("{at}.maxUnavailable");
            let mut errors: Vec<Invalid> = percent::positive(&field, away).into_iter().collect();
            errors.extend(percent::positive(&format!("{at}.maxSurge"), surge));
            if percent::number(away) == 0 && percent::number(surge) == 0 {
                let text = "may not be 0 when `maxSurge` is 0";
                errors.push(Invalid::invalid(field.as_str(), same::json(away), text));
            }
            errors.extend(percent::at_most_all(&field, away));
            errors
        }
        (ROLLING, None) => vec![Invalid::required(at, "this should be defaulted and never be nil")],
        _ => {
            let text = "supported values: \"Recreate\", \"RollingUpdate\"";
            let kind = "apps.v1.DeploymentStrategy";
            vec![go::shown(Reason::NotSupported, "spec.strategy", kind, strategy, text)]
        }
    }
}

fn status_errors(status: &DeploymentStatus) -> Vec<Invalid> {
    let counts = Counts(&[
        ("observedGeneration", status.observed_generation),
        ("replicas", status.replicas.map(Into::into)),
        ("updatedReplicas", status.updated_replicas.map(Into::into)),
        ("readyReplicas", status.ready_replicas.map(Into::into)),
        ("availableReplicas", status.available_replicas.map(Into::into)),
        ("unavailableReplicas", status.unavailable_replicas.map(Into::into)),
        ("terminatingReplicas", status.terminating_replicas.map(Into::into)),
        ("collisionCount", status.collision_count.map(Into::into)),
    ]);
    let mut errors = counts.errors();
    for part in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        errors.extend(counts.at_most(part, "replicas", "status.replicas"));
    }
    errors.extend(counts.at_most("availableReplicas", "readyReplicas", "readyReplicas"));
    errors
}
