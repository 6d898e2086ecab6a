//! PodDisruptionBudget: how many pods of a set may be away at the same time on purpose.

use bowline_api::Meta;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use serde_json::{Value, json};

use super::check::{self, conditions, percent, same, selectors};
use super::{Column, Names, Rules, age, column};
use crate::field::Invalid;

const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Min Available", "How many pods have to be there."),
    column::text("Max Unavailable", "How many pods may be away."),
    column::number("Allowed Disruptions", "How many pods may be evicted now."),
    column::AGE,
];

pub struct PodDisruptionBudgetRules;

impl Rules for PodDisruptionBudgetRules {
    type Object = PodDisruptionBudget;
    const NAMES: Names = Names {
        plural: "poddisruptionbudgets",
        singular: "poddisruptionbudget",
        short: &["pdb"],
        categories: &[],
    };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const UNCONDITIONAL_UPDATE: bool = false;
    const GENERATION: bool = true;

    fn prepare_create(budget: &mut PodDisruptionBudget, _now: jiff::Timestamp) {
        budget.status = None;
    }

    fn prepare_update(new: &mut PodDisruptionBudget, old: &PodDisruptionBudget) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut PodDisruptionBudget, old: &PodDisruptionBudget, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(budget: &PodDisruptionBudget) -> Vec<Invalid> {
        budget.spec.as_ref().map(spec_errors).unwrap_or_default()
    }

    fn validate_status(new: &PodDisruptionBudget, _old: &PodDisruptionBudget) -> Vec<Invalid> {
        let status = new.status.clone().unwrap_or_default();
        let mut errors =
            conditions::errors("status.conditions", status.conditions.as_deref().unwrap_or_default());
        let counts = [
            ("disruptionsAllowed", status.disruptions_allowed),
            ("currentHealthy", status.current_healthy),
            ("desiredHealthy", status.desired_healthy),
            ("expectedPods", status.expected_pods),
        ];
        let negative = |(field, count): (&str, Option<i32>)| {
            check::non_negative(&format!("status.{field}"), count.unwrap_or(0).into())
        };
        errors.extend(counts.into_iter().filter_map(negative));
        errors
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(budget: &PodDisruptionBudget, now: jiff::Timestamp) -> Vec<Value> {
        let spec = budget.spec.clone().unwrap_or_default();
        let shown = |count: Option<_>| count.map_or_else(|| "N/A".to_owned(), |count| percent::shown(&count));
        vec![
            budget.name().into(),
            shown(spec.min_available).into(),
            shown(spec.max_unavailable).into(),
            budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0).into(),
            age::age(&budget.metadata, now).into(),
        ]
    }
}

fn spec_errors(spec: &PodDisruptionBudgetSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        // Upstream shows its own spelling of the fields.
        let shown = json!({
            "MinAvailable": same::json(&spec.min_available), "MaxUnavailable": same::json(&spec.max_unavailable),
            "Selector": same::json(&spec.selector), "UnhealthyPodEvictionPolicy": spec.unhealthy_pod_eviction_policy,
        });
        errors.push(Invalid::invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for (field, count) in
        [("spec.minAvailable", &spec.min_available), ("spec.maxUnavailable", &spec.max_unavailable)]
    {
        let Some(count) = count else { continue };
        errors.extend(percent::positive(field, count));
        errors.extend(percent::at_most_all(field, count));
    }
    errors.extend(spec.selector.iter().flat_map(|s| selectors::label_selector("spec.selector", s)));
    let policy = spec.unhealthy_pod_eviction_policy.as_deref();
    errors.extend(
        policy.and_then(|policy| check::one_of("spec.unhealthyPodEvictionPolicy", policy, &POLICIES)),
    );
    errors
}
