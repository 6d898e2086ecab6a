//! How a job stands.

use bowline_api::Meta;
use k8s_openapi::api::batch::v1::{Job, JobStatus};

use crate::field::{Invalid, Reason};
use crate::kinds::workload::Counts;

fn has(job: &Job, condition: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|one| one.type_ == condition && one.status == "True")
}

fn finished(job: &Job) -> bool {
    has(job, "Complete") || has(job, "Failed")
}

/// Nothing of the job runs, and nothing has to be remembered of what ran.
pub fn is_idle(job: &Job) -> bool {
    let status = job.status.clone().unwrap_or_default();
    (status.start_time.is_none() || has(job, "Suspended")) && status.active.unwrap_or(0) == 0
}

/// One word for `kubectl get`.
pub fn shown(job: &Job) -> &'static str {
    let words = [
        ("Complete", has(job, "Complete")),
        ("Failed", has(job, "Failed")),
        ("Terminating", job.deleting()),
        ("Suspended", has(job, "Suspended")),
        ("FailureTarget", has(job, "FailureTarget")),
        ("SuccessCriteriaMet", has(job, "SuccessCriteriaMet")),
    ];
    words.into_iter().find(|(_, is)| *is).map_or("Running", |(word, _)| word)
}

pub fn errors(new: &Job, old: &Job) -> Vec<Invalid> {
    let (after, before) = (new.status.clone().unwrap_or_default(), old.status.clone().unwrap_or_default());
    let mut errors = Counts(&[
        ("active", after.active.map(Into::into)),
        ("succeeded", after.succeeded.map(Into::into)),
        ("failed", after.failed.map(Into::into)),
        ("ready", after.ready.map(Into::into)),
        ("terminating", after.terminating.map(Into::into)),
    ])
    .errors();
    errors.extend(condition_errors(new, old));
    errors.extend(end_errors(new, &after));
    errors.extend(ready_error(&after));
    errors.extend(taken_back(new, old, &["Failed", "Complete", "FailureTarget"], "terminal "));
    errors.extend(count_errors(new, &after, &before));
    errors.extend(taken_back(new, old, &["SuccessCriteriaMet"], ""));
    errors
}

fn about_conditions(detail: String) -> Invalid {
    Invalid { reason: Reason::Invalid, field: "status.conditions".into(), value: None, detail }
}

/// Conditions that contradict each other.
fn condition_errors(new: &Job, old: &Job) -> Vec<Invalid> {
    let pairs = [
        ("Complete", "Failed", "cannot set Complete=True and Failed=true conditions"),
        ("Complete", "FailureTarget", "cannot set Complete=True and FailureTarget=true conditions"),
        ("SuccessCriteriaMet", "Failed", "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        (
            "SuccessCriteriaMet",
            "FailureTarget",
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
    ];
    let both = pairs.into_iter().filter(|(one, other, _)| has(new, one) && has(new, other));
    let mut errors: Vec<Invalid> = both.map(|(.., text)| about_conditions(text.into())).collect();
    for (end, first) in [("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")] {
        if has(new, end) && !has(old, end) && !has(new, first) {
            let text = format!("cannot set {end}=True condition without the {first}=true condition");
            errors.push(about_conditions(text));
        }
    }
    errors
}

/// An end is an end.
fn taken_back(new: &Job, old: &Job, conditions: &[&str], what: &str) -> Vec<Invalid> {
    let gone = conditions.iter().filter(|condition| has(old, condition) && !has(new, condition));
    gone.map(|condition| about_conditions(format!("cannot disable the {what}{condition}=True condition")))
        .collect()
}

fn ready_error(status: &JobStatus) -> Option<Invalid> {
    let ready = status.ready.filter(|ready| *ready > status.active.unwrap_or(0))?;
    Some(Invalid::invalid("status.ready", ready, "cannot set more ready pods than active"))
}

fn end_errors(new: &Job, status: &JobStatus) -> Vec<Invalid> {
    let mut errors = Vec::new();
    match (&status.completion_time, has(new, "Complete")) {
        (Some(time), false) => {
            let text = "cannot set completionTime when there is no Complete=True condition";
            errors.push(Invalid::invalid("status.completionTime", time.0.to_string(), text));
        }
        (None, true) => {
            let text = "completionTime is required for Complete jobs";
            errors.push(Invalid::required("status.completionTime", text));
        }
        _ => {}
    }
    if !finished(new) {
        return errors;
    }
    if let Some(active) = status.active.filter(|active| *active > 0) {
        errors.push(Invalid::invalid("status.active", active, "active>0 is invalid for finished job"));
    }
    if status.start_time.is_none() {
        errors.push(Invalid::required("status.startTime", "startTime is required for finished job"));
    }
    errors
}

fn count_errors(new: &Job, after: &JobStatus, before: &JobStatus) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let spec = new.spec.clone().unwrap_or_default();
    // An indexed job whose size can change may have had more successes than it has indexes now.
    let elastic = spec.completion_mode.as_deref() == Some("Indexed") && spec.completions == spec.parallelism;
    let counters = [
        ("failed", after.failed, before.failed, true),
        ("succeeded", after.succeeded, before.succeeded, !elastic),
    ];
    for (name, after, before, fixed) in counters {
        if fixed && after.unwrap_or(0) < before.unwrap_or(0) {
            let text = format!("cannot decrease the {name} counter");
            errors.push(Invalid::invalid(format!("status.{name}"), after.unwrap_or(0), text));
        }
    }
    errors
}

/// How many indexes a list like `0-2,5` names, of fewer than `completions`.
pub fn count_indexes(text: &str, completions: i32) -> Result<i32, String> {
    let (mut total, mut last) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval_of(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn interval_of(interval: &str, completions: i32) -> Result<(i32, i32), String> {
    let number = |text: &str| match text.parse::<i32>() {
        Ok(number) if number >= completions => Err(format!("too large index: {text:?}")),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
    };
    match interval.split('-').collect::<Vec<_>>()[..] {
        [one] => number(one).map(|one| (one, one)),
        [first, end] => {
            let (first, end) = (number(first)?, number(end)?);
            let wrong = format!("non-increasing order, previous: {first}, current: {end}");
            if first < end { Ok((first, end)) } else { Err(wrong) }
        }
        _ => Err(format!(
            "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}
