//! What people see: standard output is data and results, colour only on a terminal.

use std::io::{self, IsTerminal, Write};

const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

/// Standard output, with colour where a person reads it.
pub struct Terminal {
    colour: bool,
}

impl Default for Terminal {
    fn default() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none();
        Self { colour: wanted && io::stdout().is_terminal() }
    }
}

impl Terminal {
    pub fn line(&self, text: impl AsRef<str>) {
        // A closed pipe (`| head`) is the reader's choice, not an error.
        let _ = writeln!(io::stdout(), "{}", text.as_ref());
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("{code}{text}{RESET}") } else { text.to_owned() }
    }
    pub fn dim(&self, text: &str) -> String {
        self.paint(DIM, text)
    }
    pub fn bold(&self, text: &str) -> String {
        self.paint(BOLD, text)
    }
    pub fn good(&self, text: &str) -> String {
        self.paint(GREEN, text)
    }
    pub fn accent(&self, text: &str) -> String {
        self.paint(CYAN, text)
    }
    pub fn bad(&self, text: &str) -> String {
        self.paint(RED, text)
    }
}
