//! From the entries of a log to what a reader wants of them. Pure.

use jiff::{SignedDuration, Timestamp};

use super::query::{BadQuery, Query};

/// What a reader wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    pub follow: bool,
    /// Of the run before this one.
    pub previous: bool,
    pub since: Option<Timestamp>,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
}

/// Why a reader's wish cannot be heard.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    Unreadable,
    Invalid,
}

impl From<BadQuery> for Refusal {
    fn from(_: BadQuery) -> Self {
        Self::Unreadable
    }
}

impl Options {
    pub fn parse(query: &Query, now: Timestamp) -> Result<Self, Refusal> {
        let at_least = |name: &str, least: i64| match query.number(name)? {
            Some(number) if number < least => Err(Refusal::Invalid),
            number => Ok(number.and_then(|number| u64::try_from(number).ok())),
        };
        let seconds = at_least("sinceSeconds", 1)?;
        let since = match (seconds, query.time("sinceTime")?) {
            (Some(_), Some(_)) => return Err(Refusal::Invalid),
            (Some(seconds), None) => {
                let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                now.checked_sub(ago).ok()
            }
            (None, time) => time,
        };
        Ok(Self {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            since,
            timestamps: query.flag("timestamps"),
            tail_lines: at_least("tailLines", 0)?,
            limit_bytes: at_least("limitBytes", 1)?,
        })
    }
}

/// One entry: `<time> <stream> <tag> <text>`.
#[derive(Debug, PartialEq)]
struct Entry<'a> {
    at: Timestamp,
    whole: bool,
    text: &'a [u8],
}

impl<'a> Entry<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let at = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        parts.next().filter(|stream| matches!(*stream, b"stdout" | b"stderr"))?;
        let whole = match parts.next()?.split(|byte| *byte == b':').next()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        Some(Self { at, whole, text: parts.next().unwrap_or_default() })
    }
}

/// Goes through a log once.
pub struct Selection {
    since: Option<Timestamp>,
    timestamps: bool,
    left: Option<u64>,
    /// The next entry begins a line.
    fresh: bool,
    /// The start of an entry whose end has not been read.
    rest: Vec<u8>,
}

impl Selection {
    pub fn new(options: &Options) -> Self {
        Self {
            since: options.since,
            timestamps: options.timestamps,
            left: options.limit_bytes,
            fresh: true,
            rest: Vec::new(),
        }
    }

    /// What the reader gets of these bytes of the log.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                self.entry(&line[..line.len() - 1], &mut output);
            }
        }
        output
    }

    /// The reader has as much as it asked for.
    pub fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    /// Another file follows: what is left of this one has no end.
    pub fn next_file(&mut self) {
        self.rest.clear();
    }

    fn entry(&mut self, line: &[u8], output: &mut Vec<u8>) {
        // A line that is none was cut short by a full disk.
        let Some(entry) = Entry::parse(line) else { return };
        if self.since.is_some_and(|since| entry.at < since) {
            return;
        }
        let start = output.len();
        if self.timestamps && self.fresh {
            output.extend_from_slice(format!("{:.9} ", entry.at).as_bytes());
        }
        output.extend_from_slice(entry.text);
        if entry.whole {
            output.push(b'\n');
        }
        self.fresh = entry.whole;
        if let Some(left) = &mut self.left {
            let length = u64::try_from(output.len() - start).unwrap_or(u64::MAX).min(*left);
            output.truncate(start + usize::try_from(length).unwrap_or(usize::MAX));
            *left -= length;
        }
    }
}
