//! From journal entries to lines that a newcomer can follow.

use std::time::Instant;

use bowline_machinery::journal::Entry;

use crate::terminal::Terminal;

/// Tells the journey with times since its beginning.
pub struct Narrator {
    began: Instant,
}

impl Narrator {
    pub fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub fn tell(&self, terminal: &Terminal, entry: &Entry) {
        let time = format!("{:>7.3} s", self.began.elapsed().as_secs_f64());
        let who = format!("{:<24}", entry.component);
        let mut what = format!("{} {}", entry.action, entry.object);
        if !entry.error.is_empty() {
            what = terminal.bad(&format!("{what}: {}", entry.error));
        }
        terminal.line(format!("{}  {}  {what}", terminal.dim(&time), terminal.accent(&who)));
    }
}
