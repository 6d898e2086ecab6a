//! The page of all figures.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use bowline_host::metrics::{Family, Text};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Response};

use super::labels::Labels;
use super::{DURATIONS, Metrics, SIZES, STORE, families, locked};
use crate::core::Core;
use crate::discovery;
use crate::http::body::{Body, full};

const MEDIA_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
/// Lets a scraper see a restart.
const STARTED: HeaderName = HeaderName::from_static("process-start-time-unix");

impl Metrics {
    pub async fn page(&self, core: &Core) -> Response<Body> {
        let mut text = Text::default();
        self.requests(&mut text);
        self.open(&mut text);
        objects(&mut text, core);
        self.store(&mut text);
        build(&mut text);
        single(&mut text, &families::STARTED, self.started);
        if let Some(disk) = self.disk.get() {
            super::process::write(&mut text, disk.as_ref()).await;
        }
        let mut response = Response::new(full(text.into_string()));
        response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
        response.headers_mut().insert(STARTED, self.started.into());
        response
    }

    fn requests(&self, text: &mut Text) {
        let requests = locked(&self.requests);
        let mut all: Vec<_> = requests.iter().collect();
        all.sort_unstable_by_key(|(labels, _)| *labels);
        text.family(&families::REQUESTS);
        for (labels, series) in &all {
            for (code, count) in &series.codes {
                let code = code.to_string();
                let mut pairs = vec![("code", code.as_str())];
                pairs.extend(of_request(labels));
                text.sample(families::REQUESTS.name, "", &pairs, None, count);
            }
        }
        text.family(&families::DURATIONS);
        for (labels, series) in &all {
            series.durations.write(text, families::DURATIONS.name, &DURATIONS, &of_request(labels));
        }
        text.family(&families::SIZES);
        for (labels, series) in all.iter().filter(|(_, series)| series.sizes.count() > 0) {
            series.sizes.write(text, families::SIZES.name, &SIZES, &of_stream(labels));
        }
    }

    fn open(&self, text: &mut Text) {
        text.family(&families::IN_FLIGHT);
        for (kind, count) in [("mutating", &self.mutating), ("readOnly", &self.read_only)] {
            let count = count.load(Ordering::Relaxed);
            text.sample(families::IN_FLIGHT.name, "", &[("request_kind", kind)], None, count);
        }
        text.family(&families::REJECTED);
        for ((flow_schema, level, reason), count) in locked(&self.rejected).iter() {
            let labels = [("flow_schema", *flow_schema), ("priority_level", level), ("reason", reason)];
            text.sample(families::REJECTED.name, "", &labels, None, count);
        }
        single(text, &families::REJECTED_CONNECTIONS, self.rejected_connections.load(Ordering::Relaxed));
        text.family(&families::LONG_RUNNING);
        for (labels, count) in locked(&self.long_running).iter() {
            text.sample(families::LONG_RUNNING.name, "", &of_stream(labels), None, count);
        }
    }

    fn store(&self, text: &mut Text) {
        let writes = locked(&self.writes);
        text.family(&families::STORE_REQUESTS);
        for ((operation, resource), of) in writes.iter() {
            let labels = [("operation", *operation), ("type", resource)];
            text.sample(families::STORE_REQUESTS.name, "", &labels, None, of.durations.count());
        }
        text.family(&families::STORE_ERRORS);
        for ((operation, resource), of) in writes.iter() {
            let labels = [("operation", *operation), ("type", resource)];
            text.sample(families::STORE_ERRORS.name, "", &labels, None, of.errors);
        }
        text.family(&families::STORE_DURATIONS);
        for ((operation, resource), of) in writes.iter() {
            let labels = [("operation", *operation), ("type", resource)];
            of.durations.write(text, families::STORE_DURATIONS.name, &STORE, &labels);
        }
    }
}

fn of_request(labels: &Labels) -> [(&str, &str); 8] {
    [
        ("component", labels.component),
        ("dry_run", labels.dry_run),
        ("group", &labels.group),
        ("resource", &labels.resource),
        ("scope", labels.scope),
        ("subresource", &labels.subresource),
        ("verb", labels.verb),
        ("version", &labels.version),
    ]
}

fn of_stream(labels: &Labels) -> [(&str, &str); 7] {
    let [component, _, group, resource, scope, subresource, verb, version] = of_request(labels);
    [component, group, resource, scope, subresource, verb, version]
}

fn objects(text: &mut Text, core: &Core) {
    let counts = core.store.counts();
    text.family(&families::OBJECTS);
    for (table, count) in &counts {
        text.sample(families::OBJECTS.name, "", &[("resource", table)], None, count);
    }
    text.family(&families::RESOURCE_OBJECTS);
    for (table, count) in &counts {
        let (resource, group) = table.split_once('.').unwrap_or((table, ""));
        let labels = [("group", group), ("resource", resource)];
        text.sample(families::RESOURCE_OBJECTS.name, "", &labels, None, count);
    }
    single(text, &families::STORE_VERSION, core.store.version());
}

fn build(text: &mut Text) {
    let platform = discovery::platform();
    text.family(&families::BUILD);
    let labels = [
        ("git_version", discovery::GIT_VERSION),
        ("major", "1"),
        ("minor", "36"),
        ("platform", platform.as_str()),
    ];
    text.sample(families::BUILD.name, "", &labels, None, 1);
}

pub fn single(text: &mut Text, family: &Family, value: impl Display) {
    text.family(family);
    text.sample(family.name, "", &[], None, value);
}
