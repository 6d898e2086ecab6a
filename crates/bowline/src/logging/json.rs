//! `--logging-format=json`: one object per line, with upstream's keys.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// `ts` in milliseconds, `msg`, `v` where upstream would have it (not for errors and warnings), then the event's fields.
pub struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let line =
            object(Timestamp::now(), *metadata.level(), metadata.target(), |fields| event.record(fields));
        writeln!(writer, "{line}")
    }
}

fn object(now: Timestamp, level: Level, target: &str, record: impl FnOnce(&mut Fields)) -> Value {
    let mut fields = Fields::default();
    record(&mut fields);
    let mut object = Map::new();
    object.insert("ts".into(), json!(now.as_microsecond() as f64 / 1e3));
    object.insert("level".into(), json!(level.as_str().to_ascii_lowercase()));
    object.insert("logger".into(), json!(target));
    object.insert("msg".into(), json!(fields.message));
    if let Some(verbosity) = verbosity(level) {
        object.insert("v".into(), json!(verbosity));
    }
    for (name, value) in fields.others {
        // A field must not replace what every line has.
        let name = if object.contains_key(&name) { format!("{name}_") } else { name };
        object.insert(name, value);
    }
    Value::Object(object)
}

/// The `--v` from which on upstream would write the line.
fn verbosity(level: Level) -> Option<u8> {
    match level {
        Level::ERROR | Level::WARN => None,
        Level::INFO => Some(0),
        Level::DEBUG => Some(4),
        Level::TRACE => Some(8),
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        // Upstream's key.
        let name = if field.name() == "error" { "err" } else { field.name() };
        self.others.push((name.trim_start_matches("r#").to_owned(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" { self.message = text } else { self.add(field, json!(text)) }
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message)
        } else {
            self.add(field, json!(value))
        }
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, json!(value));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, json!(value));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, json!(value));
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, json!(value));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("the sink").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_line_is_an_object() {
        let sink = Sink::default();
        let writer = sink.clone();
        let logs = tracing_subscriber::fmt().with_writer(move || writer.clone()).event_format(Lines).finish();
        tracing::subscriber::with_default(logs, || {
            tracing::info!(volume = "pvc-1", count = 3, "attached\n\"it\"");
            tracing::warn!(error = %"refused", msg = "mine", "ControllerPublishVolume failed");
        });
        let text = String::from_utf8(sink.0.lock().expect("the sink").clone()).expect("text");
        let mut lines: Vec<Map<String, Value>> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        for line in &mut lines {
            assert!(line.remove("ts").and_then(|ts| ts.as_f64()).is_some_and(|ts| ts > 1e12));
            assert!(line.remove("logger").is_some());
        }
        let expected = [
            json!({"level": "info", "msg": "attached\n\"it\"", "v": 0, "volume": "pvc-1", "count": 3}),
            json!({"level": "warn", "msg": "ControllerPublishVolume failed", "err": "refused", "msg_": "mine"}),
        ];
        assert_eq!(lines.into_iter().map(Value::Object).collect::<Vec<_>>(), expected);
    }
}
