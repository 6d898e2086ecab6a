//! Job: pods that run to their end, so many times.

mod spec;
mod status;

use bowline_api::{Meta, keys};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use serde_json::Value;

use super::template;
use crate::field::Invalid;
use crate::kinds::check::{same, selectors};
use crate::kinds::{Column, Dependents, Names, Rules, age, column};

pub use spec::errors as spec_errors;

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Status", "How the job stands."),
    column::text("Completions", "How many pods have succeeded, of how many."),
    column::text("Duration", "How long the job took, or takes."),
    column::AGE,
    column::wide(column::text("Containers", "Names of the containers.")),
    column::wide(column::text("Images", "Images of the containers.")),
    column::wide(column::text("Selector", "What finds the pods.")),
];

pub struct JobRules;

impl Rules for JobRules {
    type Object = Job;
    const NAMES: Names = Names { plural: "jobs", singular: "job", short: &[], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const GENERATION: bool = true;
    const DEPENDENTS: Dependents = Dependents::Orphan;
    const FIELD_LABELS: &'static [&'static str] = &["status.successful"];

    fn default_fields(job: &mut Job) {
        let spec = job.spec.get_or_insert_default();
        fill(spec);
        template::lend_labels(&mut job.metadata, Some(&spec.template));
    }

    fn prepare_create(job: &mut Job, _now: jiff::Timestamp) {
        job.status = None;
        let (name, uid) = (job.name().to_owned(), job.uid().to_owned());
        let spec = job.spec.get_or_insert_default();
        if spec.manual_selector == Some(true) {
            return;
        }
        // A job without labels of its own has those of its pods, also the ones that are made up now.
        let lent = job.metadata.labels.as_ref() == template::labels(&spec.template);
        own_pods(spec, &name, &uid);
        if lent {
            job.metadata.labels = template::labels(&spec.template).cloned();
        }
    }

    fn prepare_update(new: &mut Job, old: &Job) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut Job, old: &Job, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(job: &Job) -> Vec<Invalid> {
        let spec = job.spec.clone().unwrap_or_default();
        let mut errors = generated_errors(job, &spec);
        errors.extend(whole_spec_errors(&spec));
        errors.extend(indexed_name_error(job, &spec));
        errors
    }

    fn validate_update(new: &Job, old: &Job) -> Vec<Invalid> {
        let mut errors = whole_spec_errors(&new.spec.clone().unwrap_or_default());
        errors.extend(spec::changes(new, old));
        errors
    }

    fn validate_status(new: &Job, old: &Job) -> Vec<Invalid> {
        status::errors(new, old)
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(job: &Job, now: jiff::Timestamp) -> Vec<Value> {
        let (spec, status) = (job.spec.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
        let [names, images] = template::shown(Some(&spec.template));
        let succeeded = status.succeeded.unwrap_or(0);
        let completions = match (spec.completions, spec.parallelism.unwrap_or(0)) {
            (Some(wanted), _) => format!("{succeeded}/{wanted}"),
            (None, several @ 2..) => format!("{succeeded}/1 of {several}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let end = status.completion_time.as_ref().map_or(now, |Time(end)| *end);
        let duration =
            status.start_time.as_ref().map(|Time(start)| age::human(end.duration_since(*start).as_secs()));
        vec![
            job.name().into(),
            status::shown(job).into(),
            completions.into(),
            duration.unwrap_or_default().into(),
            age::age(&job.metadata, now).into(),
            names.into(),
            images.into(),
            template::shown_selector(&spec.selector.unwrap_or_default()).into(),
        ]
    }

    fn field_labels(job: &Job) -> Vec<(&'static str, String)> {
        let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
        vec![("status.successful", succeeded.to_string())]
    }
}

/// What a job gets when it says nothing; of a cron job too.
fn fill(spec: &mut JobSpec) {
    if spec.completions.is_none() && spec.parallelism.is_none() {
        spec.completions = Some(1);
    }
    spec.parallelism.get_or_insert(1);
    // With a limit for each index the one for all would only get in the way.
    let limit = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
    spec.backoff_limit.get_or_insert(limit);
    spec.completion_mode.get_or_insert_with(|| "NonIndexed".into());
    spec.suspend.get_or_insert(false);
    let failed = if spec.pod_failure_policy.is_some() { "Failed" } else { "TerminatingOrFailed" };
    spec.pod_replacement_policy.get_or_insert_with(|| failed.into());
    spec.manual_selector.get_or_insert(false);
    let rules = spec.pod_failure_policy.iter_mut().flat_map(|policy| policy.rules.iter_mut());
    for condition in rules.flat_map(|rule| rule.on_pod_conditions.iter_mut().flatten()) {
        if condition.status.as_deref().unwrap_or_default().is_empty() {
            condition.status = Some("True".into());
        }
    }
    template::fill(&mut spec.template);
}

/// Labels that no other job's pods have, and a selector for them.
fn own_pods(spec: &mut JobSpec, name: &str, uid: &str) {
    let labels = spec.template.metadata.get_or_insert_default().labels.get_or_insert_default();
    for key in [keys::JOB_NAME_BARE, keys::JOB_NAME] {
        labels.entry(key.into()).or_insert_with(|| name.into());
    }
    for key in [keys::CONTROLLER_UID_BARE, keys::CONTROLLER_UID] {
        labels.entry(key.into()).or_insert_with(|| uid.into());
    }
    let wanted = spec.selector.get_or_insert_default().match_labels.get_or_insert_default();
    wanted.entry(keys::CONTROLLER_UID.into()).or_insert_with(|| uid.into());
}

/// A client that sets the generated labels itself has to set the right ones.
fn generated_errors(job: &Job, spec: &JobSpec) -> Vec<Invalid> {
    if spec.manual_selector == Some(true) || spec.selector.is_none() {
        return Vec::new();
    }
    let labels = template::labels(&spec.template);
    let wanted = [
        (keys::CONTROLLER_UID_BARE, job.uid()),
        (keys::JOB_NAME_BARE, job.name()),
        (keys::CONTROLLER_UID, job.uid()),
        (keys::JOB_NAME, job.name()),
    ];
    let mut errors = Vec::new();
    for (key, want) in wanted {
        let at = format!("spec.template.metadata.labels[{key}]");
        let found = labels.and_then(|labels| labels.get(key)).map(String::as_str);
        let text = format!("must be '{want}'");
        if found.is_none() {
            errors.push(Invalid::required(at.as_str(), text.as_str()));
        }
        if found.unwrap_or_default() != want {
            errors.push(Invalid::invalid(at, same::json(&labels), text));
        }
    }
    let own = wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let selector = spec.selector.clone().unwrap_or_default();
    if !bowline_api::selector::matches(&selector, Some(&own)) {
        let text = "`selector` not auto-generated";
        errors.push(Invalid::invalid(template::SELECTOR, same::json(&selector), text));
    }
    errors
}

fn whole_spec_errors(spec: &JobSpec) -> Vec<Invalid> {
    let mut errors = spec_errors("spec", spec);
    match &spec.selector {
        None => {
            errors.push(Invalid::required(template::SELECTOR, ""));
            errors.extend(template::mismatch(template::AT, &LabelSelector::default(), &spec.template));
        }
        Some(selector) => {
            let wrong = selectors::label_selector(template::SELECTOR, selector);
            let readable = wrong.is_empty();
            errors.extend(wrong);
            errors.extend(mismatch(selector, spec).filter(|_| readable));
        }
    }
    errors
}

/// An empty selector finds everything here.
fn mismatch(selector: &LabelSelector, spec: &JobSpec) -> Option<Invalid> {
    if template::is_empty(selector) {
        None
    } else {
        template::mismatch(template::AT, selector, &spec.template)
    }
}

/// Pods of an indexed job are called after it and their index, and so are their hosts.
fn indexed_name_error(job: &Job, spec: &JobSpec) -> Option<Invalid> {
    let completions = spec.completions.filter(|completions| *completions > 0)?;
    if spec.completion_mode.as_deref() != Some("Indexed") {
        return None;
    }
    let host = format!("{}-{}", job.name(), completions - 1);
    let text = format!("will not able to create pod with invalid DNS label: {host}");
    let wrong = !bowline_api::name::label_errors(&host).is_empty();
    wrong.then(|| Invalid::invalid("metadata.name", job.name(), text))
}
