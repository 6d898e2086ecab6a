//! CronJob: jobs by the clock.

use bowline_api::Meta;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::job;
use super::{schedule, template};
use crate::field::Invalid;
use crate::kinds::check::{self, same};
use crate::kinds::{Column, Names, Rules, age, column};

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
/// Names of its jobs get a time appended.
const NAME_MAX: usize = 52;
const ZONE_PART_MAX: usize = 14;

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Schedule", "When jobs are made."),
    column::text("Timezone", "Whose clock it is."),
    column::flag("Suspend", "Whether nothing is made for now."),
    column::number("Active", "How many jobs run."),
    column::text("Last Schedule", "When a job was made last."),
    column::AGE,
    column::wide(column::text("Containers", "Names of the containers.")),
    column::wide(column::text("Images", "Images of the containers.")),
    column::wide(column::text("Selector", "What finds the pods.")),
];

pub struct CronJobRules;

impl Rules for CronJobRules {
    type Object = CronJob;
    const NAMES: Names =
        Names { plural: "cronjobs", singular: "cronjob", short: &["cj"], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const GENERATION: bool = true;

    fn default_fields(cron: &mut CronJob) {
        let spec = &mut cron.spec;
        if spec.concurrency_policy.as_deref().unwrap_or_default().is_empty() {
            spec.concurrency_policy = Some(POLICIES[0].into());
        }
        spec.suspend.get_or_insert(false);
        spec.successful_jobs_history_limit.get_or_insert(3);
        spec.failed_jobs_history_limit.get_or_insert(1);
        // The rest of a job's defaults wait for the job.
        let job = spec.job_template.spec.get_or_insert_default();
        template::fill(&mut job.template);
    }

    fn prepare_create(cron: &mut CronJob, _now: jiff::Timestamp) {
        cron.status = None;
    }

    fn prepare_update(new: &mut CronJob, old: &CronJob) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut CronJob, old: &CronJob, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(cron: &CronJob) -> Vec<Invalid> {
        spec_errors(&cron.spec, None)
    }

    fn validate_new(cron: &CronJob) -> Vec<Invalid> {
        let mut errors = Self::validate(cron);
        if cron.name().len() > NAME_MAX {
            let text = "must be no more than 52 characters";
            errors.push(Invalid::invalid("metadata.name", cron.name(), text));
        }
        errors
    }

    fn validate_change(new: &CronJob, old: &CronJob) -> Vec<Invalid> {
        spec_errors(&new.spec, Some(&old.spec))
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(cron: &CronJob, now: jiff::Timestamp) -> Vec<Value> {
        let (spec, status) = (cron.spec.clone(), cron.status.clone().unwrap_or_default());
        let job = spec.job_template.spec.unwrap_or_default();
        let [names, images] = template::shown(Some(&job.template));
        let last = status.last_schedule_time.map(|Time(at)| age::since(Some(at), now));
        let none = || "<none>".to_owned();
        vec![
            cron.name().into(),
            spec.schedule.into(),
            spec.time_zone.unwrap_or_else(none).into(),
            spec.suspend
                .map_or_else(|| "<unset>".to_owned(), |on| if on { "True" } else { "False" }.to_owned())
                .into(),
            status.active.map_or(0, |active| active.len()).into(),
            last.unwrap_or_else(none).into(),
            age::age(&cron.metadata, now).into(),
            names.into(),
            images.into(),
            template::shown_selector(&job.selector.unwrap_or_default()).into(),
        ]
    }
}

fn spec_errors(spec: &CronJobSpec, old: Option<&CronJobSpec>) -> Vec<Invalid> {
    let mut errors = schedule_errors(spec, old);
    let negative = |field: &str, count: Option<i64>| check::non_negative(&format!("spec.{field}"), count?);
    errors.extend(negative("startingDeadlineSeconds", spec.starting_deadline_seconds));
    if old.is_none_or(|old| old.time_zone != spec.time_zone) {
        errors.extend(spec.time_zone.as_deref().map(zone_errors).unwrap_or_default());
    }
    let policy = spec.concurrency_policy.as_deref();
    errors.extend(check::required_one_of("spec.concurrencyPolicy", policy, &POLICIES));
    let job = spec.job_template.spec.clone().unwrap_or_default();
    let at = "spec.jobTemplate.spec";
    errors.extend(job::spec_errors(at, &job));
    if let Some(selector) = &job.selector {
        let text = "`selector` will be auto-generated";
        errors.push(Invalid::invalid(format!("{at}.selector"), same::json(selector), text));
    }
    if job.manual_selector == Some(true) {
        let mut error = Invalid::not_supported(format!("{at}.manualSelector"), "", &["nil", "false"]);
        (error.value, error.detail) = (Some(true.into()), "supported values: \"nil\", \"false\"".into());
        errors.push(error);
    }
    let limits = [
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ];
    errors.extend(limits.into_iter().filter_map(|(field, limit)| negative(field, limit.map(Into::into))));
    errors
}

fn schedule_errors(spec: &CronJobSpec, old: Option<&CronJobSpec>) -> Vec<Invalid> {
    let (at, schedule) = ("spec.schedule", spec.schedule.as_str());
    if schedule.is_empty() {
        return vec![Invalid::required(at, "")];
    }
    let mut errors: Vec<Invalid> =
        schedule::parse(schedule).err().map(|why| Invalid::invalid(at, schedule, why)).into_iter().collect();
    // Once a zone could stand in the schedule, and what is there may stay.
    let text = match (schedule.contains("TZ"), old.is_some_and(|old| old.schedule.contains("TZ"))) {
        (true, false) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        (true, true) if spec.time_zone.is_some() => {
            "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        }
        _ => return errors,
    };
    errors.push(Invalid::invalid(at, schedule, text));
    errors
}

fn zone_errors(zone: &str) -> Vec<Invalid> {
    let wrong = |text: &str| Invalid::invalid("spec.timeZone", zone, text);
    let fine = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.starts_with('-')
            && part.len() <= ZONE_PART_MAX
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_+".contains(&c))
    };
    let unknown = format!("unknown time zone {zone}");
    if zone.is_empty() {
        return vec![wrong("timeZone must be nil or non-empty string")];
    }
    if !zone.split('/').all(fine) {
        return vec![wrong(&unknown)];
    }
    let nowhere = zone.eq_ignore_ascii_case("local").then(|| {
        wrong("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    });
    let missing = jiff::tz::TimeZone::get(zone).is_err() && zone != "Local";
    nowhere.into_iter().chain(missing.then(|| wrong(&unknown))).collect()
}
