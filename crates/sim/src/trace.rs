//! What happened, in order, as text that two runs can be compared by.

use bowline_machinery::journal::Entry;

/// The effects of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub lines: Vec<String>,
}

impl Trace {
    pub fn of(entries: &[Entry]) -> Self {
        let line = |e: &Entry| {
            let error = if e.error.is_empty() { String::new() } else { format!(": {}", e.error) };
            format!("{} {} {} {}{error}", e.at, e.component, e.action, e.object)
        };
        Self { lines: entries.iter().map(line).collect() }
    }

    /// Who did what to what, without times: the interleaving.
    pub fn order(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line.split_once(' ').map_or(line.as_str(), |(_, rest)| rest)).collect()
    }
}
