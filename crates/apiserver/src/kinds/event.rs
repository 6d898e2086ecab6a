//! Event: something that happened to an object.

use bowline_api::{Event, Meta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use serde_json::Value;

use super::check::names;
use super::{Column, Dependents, Names, Rules, age, column};
use crate::field::Invalid;

const WORD_MAX: usize = 128;
const MESSAGE_MAX: usize = 1024;

pub const COLUMNS: &[Column] = &[
    column::text("Last Seen", "Time since it last happened."),
    column::text("Type", "Normal or Warning."),
    column::text("Reason", "Why, in one word."),
    column::text("Object", "What it happened to."),
    column::wide(column::text("Subobject", "Part of the object.")),
    column::wide(column::text("Source", "Who noticed.")),
    column::text("Message", "What happened."),
    column::wide(column::text("First Seen", "Time since it first happened.")),
    column::wide(column::text("Count", "How often it happened.")),
    column::wide(column::NAME),
];

pub struct EventRules;

impl Rules for EventRules {
    type Object = Event;
    const NAMES: Names = Names { plural: "events", singular: "event", short: &["ev"], categories: &[] };
    const NAMESPACED: bool = true;
    const CREATE_ON_UPDATE: bool = true;
    const DEPENDENTS: Dependents = Dependents::None;
    const FIELD_LABELS: &'static [&'static str] = &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ];

    fn validate(event: &Event) -> Vec<Invalid> {
        validate(event, "reportingComponent")
    }

    /// Names of events come from those of their objects and need no shape but that of one segment of a path.
    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::path_segment_errors(name)
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(event: &Event, now: jiff::Timestamp) -> Vec<Value> {
        let object = &event.involved_object;
        let text = |text: &Option<String>| Value::from(text.as_deref().unwrap_or_default());
        let (first, last, count) = times(event, now);
        vec![
            last.into(),
            text(&event.type_),
            text(&event.reason),
            target(event).into(),
            text(&object.field_path),
            source(event).into(),
            event.message.as_deref().unwrap_or_default().trim().into(),
            first.into(),
            count.into(),
            event.name().into(),
        ]
    }

    fn field_labels(event: &Event) -> Vec<(&'static str, String)> {
        let object = &event.involved_object;
        let component = event.source.as_ref().and_then(|s| s.component.clone());
        let source = component.filter(|c| !c.is_empty()).or_else(|| event.reporting_component.clone());
        let values = [
            object.kind.clone(),
            object.namespace.clone(),
            object.name.clone(),
            object.uid.clone(),
            object.api_version.clone(),
            object.resource_version.clone(),
            object.field_path.clone(),
            event.reason.clone(),
            event.reporting_component.clone(),
            source,
            event.type_.clone(),
        ];
        Self::FIELD_LABELS.iter().copied().zip(values.map(Option::unwrap_or_default)).collect()
    }
}

/// What holds for events of both APIs. They differ in what they call the reporting controller.
pub fn validate(event: &Event, controller: &str) -> Vec<Invalid> {
    let mut errors = match event.event_time {
        None => old_style_errors(event),
        Some(_) => new_style_errors(event, controller),
    };
    errors.extend(names::subdomain("namespace", event.namespace()));
    errors
}

fn wrong_namespace(event: &Event) -> Invalid {
    let namespace = event.involved_object.namespace.as_deref().unwrap_or_default();
    Invalid::invalid("involvedObject.namespace", namespace, "does not match event.namespace")
}

/// An event lives beside its object; events of cluster-scoped objects live in `default`.
fn old_style_errors(event: &Event) -> Vec<Invalid> {
    let own = event.namespace();
    let fits = match event.involved_object.namespace.as_deref().unwrap_or_default() {
        "" => matches!(own, "" | "default"),
        theirs => theirs == own,
    };
    if fits { Vec::new() } else { vec![wrong_namespace(event)] }
}

/// An event with an `eventTime` comes from a client that also has to say who reports and what was done.
fn new_style_errors(event: &Event, controller: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let homeless = event.involved_object.namespace.as_deref().unwrap_or_default().is_empty();
    if homeless && !matches!(event.namespace(), "default" | "kube-system") {
        errors.push(wrong_namespace(event));
    }
    let component = event.reporting_component.as_deref().unwrap_or_default();
    if component.is_empty() {
        errors.push(Invalid::required(controller, ""));
    }
    errors.extend(names::qualified(controller, component));
    let words = [
        ("reportingInstance", &event.reporting_instance),
        ("action", &event.action),
        ("reason", &event.reason),
    ];
    for (field, word) in words {
        let word = word.as_deref().unwrap_or_default();
        if word.is_empty() {
            errors.push(Invalid::required(field, ""));
        }
        errors.extend(long(field, word, WORD_MAX));
    }
    errors.extend(long("message", event.message.as_deref().unwrap_or_default(), MESSAGE_MAX));
    errors
}

/// The text itself is not repeated.
fn long(field: &str, text: &str, max: usize) -> Option<Invalid> {
    (text.len() > max).then(|| Invalid::invalid(field, "", format!("can have at most {max} characters")))
}

/// First seen, last seen and how often, whichever of the two styles the event has.
fn times(event: &Event, now: jiff::Timestamp) -> (String, String, i32) {
    let happened = event.event_time.as_ref().map(|MicroTime(at)| *at);
    let first = event.first_timestamp.as_ref().map(|Time(at)| *at).or(happened);
    let last = event.last_timestamp.as_ref().map(|Time(at)| *at).or(first);
    let count = event.count.filter(|count| *count != 0).unwrap_or(1);
    let (last, count) = match &event.series {
        Some(series) => {
            (series.last_observed_time.as_ref().map(|MicroTime(at)| *at), series.count.unwrap_or(0))
        }
        None => (last, count),
    };
    (age::since(first, now), age::since(last, now), count)
}

fn target(event: &Event) -> String {
    let kind = event.involved_object.kind.as_deref().unwrap_or_default().to_lowercase();
    match event.involved_object.name.as_deref().unwrap_or_default() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Event) -> String {
    let source = event.source.clone().unwrap_or_default();
    let first = |one: Option<String>, other: &Option<String>| {
        one.filter(|text| !text.is_empty()).or_else(|| other.clone()).unwrap_or_default()
    };
    let component = first(source.component, &event.reporting_component);
    let host = first(source.host, &event.reporting_instance);
    if host.is_empty() { component } else { format!("{component}, {host}") }
}
