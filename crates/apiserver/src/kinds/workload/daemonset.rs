//! DaemonSet: one pod on each node.

use bowline_api::{Meta, keys};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetUpdateStrategy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::{Counts, collisions, template};
use crate::field::{Invalid, Reason};
use crate::kinds::check::{self, go, percent, same, selectors};
use crate::kinds::pod::spec;
use crate::kinds::{Column, Names, Rules, age, column};

const ROLLING: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::number("Desired", "How many nodes should have a pod."),
    column::number("Current", "How many of them have one."),
    column::number("Ready", "How many of them have one that is ready."),
    column::number("Up-to-date", "How many of them have one of the current template."),
    column::number("Available", "How many of them have one that is ready for long enough."),
    column::text("Node Selector", "Which nodes are meant."),
    column::AGE,
    column::wide(column::text("Containers", "Names of the containers.")),
    column::wide(column::text("Images", "Images of the containers.")),
    column::wide(column::text("Selector", "What finds the pods.")),
];

pub struct DaemonSetRules;

impl Rules for DaemonSetRules {
    type Object = DaemonSet;
    const NAMES: Names =
        Names { plural: "daemonsets", singular: "daemonset", short: &["ds"], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const GENERATION: bool = true;

    fn default_fields(set: &mut DaemonSet) {
        let spec = set.spec.get_or_insert_default();
        let strategy = spec.update_strategy.get_or_insert_default();
        if strategy.type_.as_deref().unwrap_or_default().is_empty() {
            strategy.type_ = Some(ROLLING.into());
        }
        if strategy.type_.as_deref() == Some(ROLLING) {
            let rolling = strategy.rolling_update.get_or_insert_default();
            rolling.max_unavailable.get_or_insert(IntOrString::Int(1));
            rolling.max_surge.get_or_insert(IntOrString::Int(0));
        }
        spec.revision_history_limit.get_or_insert(10);
        template::fill(&mut spec.template);
    }

    fn prepare_create(set: &mut DaemonSet, _now: jiff::Timestamp) {
        set.status = None;
        set.set_annotation(keys::TEMPLATE_GENERATION, "1");
    }

    /// Templates are counted, in an annotation since the field for it is gone.
    fn prepare_update(new: &mut DaemonSet, old: &DaemonSet) {
        new.status = old.status.clone();
        let template = |set: &DaemonSet| set.spec.clone().unwrap_or_default().template;
        let before: i64 =
            old.annotation(keys::TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0);
        let changed = !same::alike("core.v1.PodTemplateSpec", &template(new), &template(old));
        new.set_annotation(keys::TEMPLATE_GENERATION, (before + i64::from(changed)).to_string());
    }

    fn prepare_status(new: &mut DaemonSet, old: &DaemonSet, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(set: &DaemonSet) -> Vec<Invalid> {
        let spec = set.spec.clone().unwrap_or_default();
        let mut errors = selectors::label_selector(template::SELECTOR, &spec.selector);
        if errors.is_empty() {
            errors.extend(template::mismatch(template::AT, &spec.selector, &spec.template));
        }
        errors.extend(spec::template_errors(template::AT, &spec.template));
        errors.extend(template::lasting_errors(template::AT, &spec.template, "DaemonSet"));
        errors
            .extend(check::non_negative("spec.minReadySeconds", spec.min_ready_seconds.unwrap_or(0).into()));
        errors.extend(strategy_errors(&spec.update_strategy.unwrap_or_default()));
        let limit = spec.revision_history_limit.unwrap_or(0).into();
        errors.extend(check::non_negative("spec.revisionHistoryLimit", limit));
        errors
    }

    fn validate_change(new: &DaemonSet, old: &DaemonSet) -> Vec<Invalid> {
        let selector = |set: &DaemonSet| set.spec.clone().unwrap_or_default().selector;
        let changed = same::immutable(template::SELECTOR, &selector(new), &selector(old));
        changed.into_iter().chain(Self::validate(new)).collect()
    }

    fn validate_status(new: &DaemonSet, old: &DaemonSet) -> Vec<Invalid> {
        let status = new.status.clone().unwrap_or_default();
        let mut errors = Counts(&[
            ("currentNumberScheduled", Some(status.current_number_scheduled.into())),
            ("numberMisscheduled", Some(status.number_misscheduled.into())),
            ("desiredNumberScheduled", Some(status.desired_number_scheduled.into())),
            ("numberReady", Some(status.number_ready.into())),
            ("observedGeneration", status.observed_generation),
            ("updatedNumberScheduled", status.updated_number_scheduled.map(Into::into)),
            ("numberAvailable", status.number_available.map(Into::into)),
            ("numberUnavailable", status.number_unavailable.map(Into::into)),
            ("collisionCount", status.collision_count.map(Into::into)),
        ])
        .errors();
        let before = old.status.as_ref().and_then(|status| status.collision_count);
        errors.extend(collisions(status.collision_count, before));
        errors
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(set: &DaemonSet, now: jiff::Timestamp) -> Vec<Value> {
        let (spec, status) = (set.spec.clone().unwrap_or_default(), set.status.clone().unwrap_or_default());
        let [names, images] = template::shown(Some(&spec.template));
        let nodes = spec.template.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
        vec![
            set.name().into(),
            status.desired_number_scheduled.into(),
            status.current_number_scheduled.into(),
            status.number_ready.into(),
            status.updated_number_scheduled.unwrap_or(0).into(),
            status.number_available.unwrap_or(0).into(),
            template::shown_labels(nodes).into(),
            age::age(&set.metadata, now).into(),
            names.into(),
            images.into(),
            template::shown_selector(&spec.selector).into(),
        ]
    }
}

fn strategy_errors(strategy: &DaemonSetUpdateStrategy) -> Vec<Invalid> {
    let at = "spec.updateStrategy.rollingUpdate";
    match (strategy.type_.as_deref().unwrap_or_default(), &strategy.rolling_update) {
        (ON_DELETE, _) => Vec::new(),
        (ROLLING, None) => vec![Invalid::required(at, "")],
        (ROLLING, Some(rolling)) => {
            let zero = IntOrString::Int(0);
            let away = rolling.max_unavailable.as_ref().unwrap_or(&zero);
            let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
            let (at_away, at_surge) = (format!("{at}.maxUnavailable"), format!("{at}.maxSurge"));
            let mut errors: Vec<Invalid> = percent::positive(&at_away, away).into_iter().collect();
            errors.extend(percent::positive(&at_surge, surge));
            errors.extend(percent::at_most_all(&at_away, away));
            errors.extend(percent::at_most_all(&at_surge, surge));
            match (percent::number(away) != 0, percent::number(surge) != 0) {
                (true, true) => {
                    let text = "may not be set when maxUnavailable is non-zero";
                    errors.push(Invalid::invalid(at_surge, same::json(surge), text));
                }
                (false, false) => {
                    errors.push(Invalid::required(at_away, "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
            errors
        }
        _ => {
            let text = "supported values: \"RollingUpdate\", \"OnDelete\"";
            let kind = "apps.v1.DaemonSetUpdateStrategy";
            vec![go::shown(Reason::NotSupported, "spec.updateStrategy", kind, strategy, text)]
        }
    }
}
