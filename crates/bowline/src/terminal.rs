//! What people see: standard output is data and results, colour only on a terminal.

use std::ffi::OsStr;
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
        Self { colour: coloured(&io::stdout()) }
    }
}

/// Whether a person reads this stream, and has not said that colour is not wanted (<https://no-color.org>).
pub fn coloured(stream: &impl IsTerminal) -> bool {
    wanted(std::env::var_os("NO_COLOR").as_deref()) && stream.is_terminal()
}

/// An empty value says nothing.
fn wanted(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_is_heard_unless_it_is_empty() {
        for (value, expected) in [(None, true), (Some(""), true), (Some("1"), false), (Some("0"), false)] {
            assert_eq!(wanted(value.map(OsStr::new)), expected, "{value:?}");
        }
    }
}
