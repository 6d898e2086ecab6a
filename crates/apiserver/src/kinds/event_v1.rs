//! Event of `events.k8s.io`: the same stored objects as core's events, under newer names and stricter rules.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::EventSeries;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};

use super::check::same::immutable;
use super::event::{self, EventRules};
use super::{Column, Dependents, Names, Rules, StoredAs};
use crate::field::Invalid;

/// Fields that the two APIs name differently: core's name, and the one here.
const RENAMED: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Core shows these even when they are empty; here they are left out then.
const ALWAYS: [&str; 2] = ["reportingComponent", "reportingInstance"];

const SERIES_MIN: i32 = 2;

pub struct EventV1Rules;

impl Rules for EventV1Rules {
    type Object = Event;
    const NAMES: Names = EventRules::NAMES;
    const NAMESPACED: bool = true;
    const CREATE_ON_UPDATE: bool = true;
    const DEPENDENTS: Dependents = EventRules::DEPENDENTS;
    const FIELD_LABELS: &'static [&'static str] = &[
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
    ];

    fn stored_as() -> Option<StoredAs> {
        Some(StoredAs { table: EventRules::NAMES.plural, read: from_core, write: to_core })
    }

    fn validate(event: &Event) -> Vec<Invalid> {
        event::validate(&as_core(event), "reportingController")
    }

    fn validate_create(event: &Event) -> Vec<Invalid> {
        let unset = |field: &str| Invalid::invalid(field, "", "needs to be unset");
        let mut errors: Vec<Invalid> = series_error(event).into_iter().collect();
        if event.event_time.is_none() {
            errors.push(Invalid::required("eventTime", ""));
        }
        let type_ = event.type_.as_deref().unwrap_or_default();
        if !matches!(type_, "Normal" | "Warning") {
            errors.push(Invalid::invalid("type", "", format!("has invalid value: {type_}")));
        }
        let source = event.deprecated_source.clone().unwrap_or_default();
        let named = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        let set = [
            (event.deprecated_first_timestamp.is_some(), "firstTimestamp"),
            (event.deprecated_last_timestamp.is_some(), "lastTimestamp"),
            (event.deprecated_count.is_some_and(|count| count != 0), "count"),
            (named(&source.component) || named(&source.host), "source"),
        ];
        errors.extend(set.into_iter().filter(|(set, _)| *set).map(|(_, field)| unset(field)));
        errors
    }

    fn validate_update(new: &Event, old: &Event) -> Vec<Invalid> {
        let series = if new.series == old.series { None } else { series_error(new) };
        // Errors name the fields as core's events do, whatever the client called them.
        let (new, old) = (as_core(new), as_core(old));
        let fixed = [
            immutable("involvedObject", &new.involved_object, &old.involved_object),
            immutable("reason", &new.reason, &old.reason),
            immutable("message", &new.message, &old.message),
            immutable("source", &new.source, &old.source),
            immutable("firstTimestamp", &new.first_timestamp, &old.first_timestamp),
            immutable("lastTimestamp", &new.last_timestamp, &old.last_timestamp),
            immutable("count", &new.count, &old.count),
            immutable("type", &new.type_, &old.type_),
            immutable("eventTime", &new.event_time, &old.event_time),
            immutable("action", &new.action, &old.action),
            immutable("related", &new.related, &old.related),
            immutable("reportingController", &new.reporting_component, &old.reporting_component),
            immutable("reportingInstance", &new.reporting_instance, &old.reporting_instance),
        ];
        series.into_iter().chain(fixed.into_iter().flatten()).collect()
    }

    fn columns() -> &'static [Column] {
        event::COLUMNS
    }

    fn cells(event: &Event, now: Timestamp) -> Vec<Value> {
        EventRules::cells(&as_core(event), now)
    }

    fn field_labels(event: &Event) -> Vec<(&'static str, String)> {
        let core = EventRules::field_labels(&as_core(event));
        // Core has one more, which is made of two fields.
        let values = core.into_iter().filter(|(label, _)| *label != "source").map(|(_, value)| value);
        Self::FIELD_LABELS.iter().copied().zip(values).collect()
    }
}

/// A series without a time does not even decode.
fn series_error(event: &Event) -> Option<Invalid> {
    let short = event.series.as_ref().is_some_and(|series| series.count < SERIES_MIN);
    short.then(|| Invalid::invalid("series.count", "", format!("should be at least {SERIES_MIN}")))
}

fn as_core(event: &Event) -> bowline_api::Event {
    let event = event.clone();
    bowline_api::Event {
        metadata: event.metadata,
        involved_object: event.regarding.unwrap_or_default(),
        reason: event.reason,
        message: event.note,
        source: event.deprecated_source,
        first_timestamp: event.deprecated_first_timestamp,
        last_timestamp: event.deprecated_last_timestamp,
        count: event.deprecated_count,
        type_: event.type_,
        event_time: event.event_time,
        series: event.series.map(|series| EventSeries {
            count: Some(series.count),
            last_observed_time: Some(series.last_observed_time),
        }),
        action: event.action,
        related: event.related,
        reporting_component: event.reporting_controller,
        reporting_instance: event.reporting_instance,
    }
}

fn from_core(mut stored: Value) -> Value {
    for field in ALWAYS {
        if stored[field] == ""
            && let Some(fields) = stored.as_object_mut()
        {
            fields.remove(field);
        }
    }
    rename(&mut stored, |(core, here)| (core, here));
    stored["apiVersion"] = "events.k8s.io/v1".into();
    stored
}

fn to_core(mut event: Value) -> Value {
    rename(&mut event, |(core, here)| (here, core));
    event["apiVersion"] = "v1".into();
    if event["involvedObject"].is_null() {
        event["involvedObject"] = json!({});
    }
    for field in ALWAYS {
        if event[field].is_null() {
            event[field] = "".into();
        }
    }
    event
}

/// `direction` tells the old name from the new one.
fn rename(event: &mut Value, direction: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    let Some(fields) = event.as_object_mut() else { return };
    for (from, to) in RENAMED.map(direction) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}
