//! SEC-1: no secret reaches an object, an event, a log or a file.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_apiserver::store::Event;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Metadata, Subscriber};

use super::Oracle;

/// The secret of the class whose volumes need one in every call.
pub const SECRET: &str = "token-of-the-simulation";
/// The same as the API server stores it.
const ENCODED: &str = "dG9rZW4tb2YtdGhlLXNpbXVsYXRpb24=";
/// Formatting every log line takes time; one history of so many reads them.
const LOGS_OF: u64 = 8;

fn shows(text: &str) -> bool {
    text.contains(SECRET) || text.contains(ENCODED)
}

impl Oracle {
    pub(super) fn sec_1_object(&mut self, event: &Event) {
        if std::str::from_utf8(&event.object.json).is_ok_and(shows) {
            let key = event.object.key.clone();
            self.broken(format!("SEC-1: an object named {key} has the secret"));
        }
    }
}

/// Files of drivers and kubelets. What a pod's volume shows of a secret is in memory, and no pod here asks for it.
pub(super) fn sec_1_files(files: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<String> {
    let leaked = files.iter().filter(|(_, bytes)| std::str::from_utf8(bytes).is_ok_and(shows));
    leaked.map(|(path, _)| format!("SEC-1: the secret is in {}", path.display())).collect()
}

/// Reads what this thread logs.
pub struct Logs {
    found: Arc<Mutex<Vec<String>>>,
    _listening: Option<DefaultGuard>,
}

impl Logs {
    /// Listens during the histories of some seeds.
    pub fn of(seed: u64) -> Self {
        let found = Arc::<Mutex<Vec<String>>>::default();
        let reader = Reader { found: found.clone() };
        let listening = seed.is_multiple_of(LOGS_OF).then(|| tracing::subscriber::set_default(reader));
        Self { found, _listening: listening }
    }

    /// Lines that have the secret.
    pub fn violations(&self) -> Vec<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Reader {
    found: Arc<Mutex<Vec<String>>>,
}

impl Reader {
    fn read(&self, line: Line) {
        if shows(&line.0) {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push(format!("SEC-1: the secret is in a log line:{}", line.0));
        }
    }
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Reader {
    /// Everything that `-v=5` shows.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG && !metadata.target().starts_with("h2")
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut line = Line::default();
        span.record(&mut line);
        self.read(line);
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut line = Line::default();
        values.record(&mut line);
        self.read(line);
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.read(line);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
