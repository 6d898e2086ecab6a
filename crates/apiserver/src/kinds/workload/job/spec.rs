//! What a job may ask for, and what of it may change.

use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicyRule,
};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::status;
use crate::field::{Invalid, Reason};
use crate::kinds::check::{self, go, names, same};
use crate::kinds::pod::spec;
use crate::kinds::workload::template;

const MODES: [&str; 2] = ["NonIndexed", "Indexed"];
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const INDEXED_MAX: i32 = 100_000;
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const MANAGER_MAX: usize = 63;
const NOT_INDEXED: &str = "requires indexed completion mode";

/// `at` is where the spec stands; a cron job has it in a template.
pub fn errors(at: &str, spec: &JobSpec) -> Vec<Invalid> {
    let mut errors = count_errors(at, spec);
    if let Some(manager) = &spec.managed_by {
        errors.extend(names::domain_prefixed_path(&format!("{at}.managedBy"), manager));
        if manager.len() > MANAGER_MAX {
            errors.push(check::too_long(format!("{at}.managedBy"), MANAGER_MAX));
        }
    }
    errors.extend(mode_errors(at, spec));
    if let Some(policy) = &spec.pod_failure_policy {
        errors.extend(check::too_many(format!("{at}.podFailurePolicy.rules"), policy.rules.len(), RULES_MAX));
        for (index, rule) in policy.rules.iter().enumerate() {
            errors.extend(rule_errors(&format!("{at}.podFailurePolicy.rules[{index}]"), rule, spec));
        }
    }
    errors.extend(success_errors(&format!("{at}.successPolicy"), spec));
    let known: &[&str] =
        if spec.pod_failure_policy.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    let policy = spec.pod_replacement_policy.as_deref();
    errors.extend(
        policy.and_then(|policy| check::one_of(&format!("{at}.podReplacementPolicy"), policy, known)),
    );
    errors.extend(spec::template_errors(&format!("{at}.template"), &spec.template));
    errors.extend(restart_error(&format!("{at}.template.spec.restartPolicy"), spec));
    errors
}

fn count_errors(at: &str, spec: &JobSpec) -> Vec<Invalid> {
    let counts = [
        ("parallelism", spec.parallelism.map(i64::from)),
        ("completions", spec.completions.map(i64::from)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(i64::from)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(i64::from)),
        ("maxFailedIndexes", spec.max_failed_indexes.map(i64::from)),
    ];
    let negative =
        |(field, count): (&str, Option<i64>)| check::non_negative(&format!("{at}.{field}"), count?);
    let mut errors: Vec<Invalid> = counts.into_iter().filter_map(negative).collect();
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        let text = "when maxFailedIndexes is specified";
        errors.push(Invalid::required(format!("{at}.backoffLimitPerIndex"), text));
    }
    errors
}

fn mode_errors(at: &str, spec: &JobSpec) -> Vec<Invalid> {
    let mode = spec.completion_mode.as_deref().unwrap_or(MODES[0]);
    let mut errors: Vec<Invalid> =
        check::one_of(&format!("{at}.completionMode"), mode, &MODES).into_iter().collect();
    let failed = spec.max_failed_indexes;
    if mode == "Indexed" {
        if spec.completions.is_none() {
            errors.push(Invalid::required(format!("{at}.completions"), "when completion mode is Indexed"));
        }
        if let Some(count) = spec.parallelism.filter(|count| *count > INDEXED_MAX) {
            let text = format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed");
            errors.push(Invalid::invalid(format!("{at}.parallelism"), count, text));
        }
        let at = format!("{at}.maxFailedIndexes");
        if let Some(count) = failed.filter(|count| spec.completions.is_some_and(|all| *count > all)) {
            errors.push(Invalid::invalid(at.as_str(), count, "must be less than or equal to completions"));
        }
        if let Some(count) = failed.filter(|count| *count > INDEXED_MAX) {
            let text = format!("must be less than or equal to {INDEXED_MAX}");
            errors.push(Invalid::invalid(at, count, text));
        }
    } else if mode == MODES[0] {
        for (field, count) in
            [("backoffLimitPerIndex", spec.backoff_limit_per_index), ("maxFailedIndexes", failed)]
        {
            errors.extend(count.map(|count| Invalid::invalid(format!("{at}.{field}"), count, NOT_INDEXED)));
        }
    }
    errors
}

/// A field that has to be one of a few words; upstream lists them in brackets when it is missing.
fn word(at: String, value: &str, known: &[&str]) -> Option<Invalid> {
    match value {
        "" => {
            let listed: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
            Some(Invalid::required(at, format!("valid values: [{}]", listed.join(" "))))
        }
        value => check::one_of(&at, value, known),
    }
}

fn without_value(at: &str, detail: &str) -> Invalid {
    Invalid { reason: Reason::Invalid, field: at.into(), value: None, detail: detail.into() }
}

fn rule_errors(at: &str, rule: &PodFailurePolicyRule, spec: &JobSpec) -> Vec<Invalid> {
    let field = format!("{at}.action");
    let mut errors: Vec<Invalid> = match rule.action.as_str() {
        "FailIndex" if spec.backoff_limit_per_index.is_none() => {
            let text = "requires the backoffLimitPerIndex to be set";
            vec![Invalid::invalid(field, rule.action.as_str(), text)]
        }
        action => word(field, action, &ACTIONS).into_iter().collect(),
    };
    let conditions = rule.on_pod_conditions.as_deref().unwrap_or_default();
    if let Some(codes) = &rule.on_exit_codes {
        errors.extend(exit_code_errors(&format!("{at}.onExitCodes"), codes, spec));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let at = format!("{at}.onPodConditions[{index}]");
        errors.extend(names::qualified(&format!("{at}.type"), &condition.type_));
        let status = condition.status.as_deref().unwrap_or_default();
        errors.extend(word(format!("{at}.status"), status, &STATUSES));
    }
    match (rule.on_exit_codes.is_some(), conditions.is_empty()) {
        (true, false) => {
            errors
                .push(without_value(at, "specifying both OnExitCodes and OnPodConditions is not supported"));
        }
        (false, true) => {
            errors.push(without_value(at, "specifying one of OnExitCodes and OnPodConditions is required"));
        }
        _ => {}
    }
    errors
}

fn exit_code_errors(
    at: &str,
    codes: &PodFailurePolicyOnExitCodesRequirement,
    spec: &JobSpec,
) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> =
        word(format!("{at}.operator"), &codes.operator, &OPERATORS).into_iter().collect();
    let pod = spec.template.spec.clone().unwrap_or_default();
    let mut containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    if let Some(name) =
        codes.container_name.as_deref().filter(|name| !containers.any(|one| one.name == *name))
    {
        let text = "must be one of the container or initContainer names in the pod template";
        errors.push(Invalid::invalid(format!("{at}.containerName"), name, text));
    }
    let (at, values) = (format!("{at}.values"), codes.values.as_slice());
    if values.is_empty() {
        errors.push(Invalid::invalid(
            at.as_str(),
            same::json(&codes.values),
            "at least one value is required",
        ));
    }
    errors.extend(check::too_many(at.clone(), values.len(), EXIT_CODES_MAX));
    for (index, value) in values.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if codes.operator == "In" && *value == 0 {
            errors.push(Invalid::invalid(at.as_str(), *value, "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            errors.push(Invalid::duplicate(at, *value));
        }
    }
    if !values.is_sorted() {
        errors.push(Invalid::invalid(at, same::json(&codes.values), "must be ordered"));
    }
    errors
}

fn success_errors(at: &str, spec: &JobSpec) -> Vec<Invalid> {
    let Some(policy) = &spec.success_policy else { return Vec::new() };
    if spec.completion_mode.as_deref() != Some("Indexed") {
        return vec![go::invalid(at, "batch.v1.SuccessPolicy", policy, NOT_INDEXED)];
    }
    let at = format!("{at}.rules");
    let mut errors = Vec::new();
    if policy.rules.is_empty() {
        let text = "at least one rules must be specified when the successPolicy is specified";
        errors.push(Invalid::required(at.as_str(), text));
    }
    errors.extend(check::too_many(at.clone(), policy.rules.len(), RULES_MAX));
    let completions = spec.completions.unwrap_or(0);
    for (index, rule) in policy.rules.iter().enumerate() {
        errors.extend(success_rule_errors(&format!("{at}[{index}]"), rule, completions));
    }
    errors
}

fn success_rule_errors(at: &str, rule: &SuccessPolicyRule, completions: i32) -> Vec<Invalid> {
    let (count, indexes) = (rule.succeeded_count, rule.succeeded_indexes.as_deref());
    if count.is_none() && indexes.is_none() {
        let text = "at least one of succeededCount or succeededIndexes must be specified";
        return vec![Invalid::required(at, text)];
    }
    let mut errors = Vec::new();
    let total = indexes.map(|indexes| status::count_indexes(indexes, completions));
    if let (Some(Err(why)), Some(indexes)) = (&total, indexes) {
        let text = format!("error parsing succeededIndexes: {why}");
        errors.push(Invalid::invalid(format!("{at}.succeededIndexes"), indexes, text));
    }
    let Some(count) = count else { return errors };
    let at = format!("{at}.succeededCount");
    errors.extend(check::non_negative(&at, count.into()));
    let bounds = [
        (Some(completions), "the number of specified completions"),
        (
            total.map(|total| total.unwrap_or(0)),
            "the number of indexes in the specified succeededIndexes field",
        ),
    ];
    for (bound, what) in bounds {
        if let Some(bound) = bound.filter(|bound| count > *bound) {
            let text = format!("must be less than or equal to {bound} ({what})");
            errors.push(Invalid::invalid(at.as_str(), count, text));
        }
    }
    errors
}

/// Pods that would never end make no job.
fn restart_error(at: &str, spec: &JobSpec) -> Option<Invalid> {
    let pod = spec.template.spec.clone().unwrap_or_default();
    match pod.restart_policy.as_deref().unwrap_or_default() {
        "" | "Always" => Some(Invalid::required(at, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec.pod_failure_policy.is_some() => {
            let text = "only \"Never\" is supported when podFailurePolicy is specified";
            Some(Invalid::invalid(at, "OnFailure", text))
        }
        "OnFailure" | "Never" => None,
        other => check::one_of(at, other, &["OnFailure", "Never"]),
    }
}

/// What an update may not change.
pub fn changes(new: &Job, old: &Job) -> Vec<Invalid> {
    let (after, before) = (new.spec.clone().unwrap_or_default(), old.spec.clone().unwrap_or_default());
    let mut errors: Vec<Invalid> = completions_error(&after, &before).into_iter().collect();
    errors.extend(same::immutable(template::SELECTOR, &after.selector, &before.selector));
    errors.extend(template_errors(&after.template, &before, old));
    let fixed = [
        same::immutable("spec.completionMode", &after.completion_mode, &before.completion_mode),
        go::immutable(
            "spec.podFailurePolicy",
            "batch.v1.PodFailurePolicy",
            &after.pod_failure_policy,
            &before.pod_failure_policy,
        ),
        same::immutable(
            "spec.backoffLimitPerIndex",
            &after.backoff_limit_per_index,
            &before.backoff_limit_per_index,
        ),
        same::immutable("spec.managedBy", &after.managed_by, &before.managed_by),
        go::immutable(
            "spec.successPolicy",
            "batch.v1.SuccessPolicy",
            &after.success_policy,
            &before.success_policy,
        ),
    ];
    errors.extend(fixed.into_iter().flatten());
    errors
}

/// An indexed job may grow and shrink as a whole.
fn completions_error(after: &JobSpec, before: &JobSpec) -> Option<Invalid> {
    if after.completion_mode.as_deref() != Some("Indexed") {
        return same::immutable("spec.completions", &after.completions, &before.completions);
    }
    let changed = after.completions.filter(|_| after.completions != before.completions)?;
    let text = "can only be modified in tandem with spec.parallelism";
    (Some(changed) != after.parallelism).then(|| Invalid::invalid("spec.completions", changed, text))
}

/// While nothing runs, where pods run and how large they are may still change.
fn template_errors(after: &PodTemplateSpec, before: &JobSpec, old: &Job) -> Option<Invalid> {
    let suspended = before.suspend == Some(true) && status::is_idle(old);
    if !suspended {
        return go::immutable("spec.template", "core.v1.PodTemplateSpec", after, &before.template);
    }
    let (wanted, was) =
        (after.spec.clone().unwrap_or_default(), before.template.spec.clone().unwrap_or_default());
    let mut allowed = PodSpec {
        node_selector: wanted.node_selector.clone(),
        tolerations: wanted.tolerations.clone(),
        scheduling_gates: wanted.scheduling_gates.clone(),
        ..was
    };
    match &wanted.affinity {
        Some(affinity) => {
            allowed.affinity.get_or_insert_default().node_affinity.clone_from(&affinity.node_affinity);
        }
        None => {
            // What was about nodes only may go altogether.
            allowed.affinity.iter_mut().for_each(|affinity| affinity.node_affinity = None);
            allowed.affinity = allowed.affinity.filter(|affinity| *affinity != Default::default());
        }
    }
    let containers = allowed.containers.iter_mut().zip(&wanted.containers);
    let init = allowed.init_containers.iter_mut().flatten().zip(wanted.init_containers.iter().flatten());
    for (own, other) in containers.chain(init) {
        own.resources.clone_from(&other.resources);
    }
    go::immutable("spec.template.spec", "core.v1.PodSpec", &wanted, &allowed)
}
