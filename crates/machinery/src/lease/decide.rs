//! What to do about a lease, as client-go decides it.
//!
//! Times of other machines are written into records and never compared: how long a record counts is measured from when this
//! process last saw it change, on its own clock.

use std::time::Duration;

use jiff::Timestamp;

/// A lease's record as upstream writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Empty when released.
    pub holder: String,
    pub seconds: i32,
    pub transitions: i32,
    pub acquired: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
}

/// What is known about the lease.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Who we are.
    pub identity: &'a str,
    /// How long our records count, in seconds.
    pub seconds: i32,
    /// `None` when there is no lease object.
    pub record: Option<&'a Record>,
    /// Time since the record was last seen to change.
    pub unchanged: Duration,
    /// Whether this process leads.
    pub leading: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make the lease with this record.
    Create(Record),
    /// Write this record over the one that was read.
    Update(Record),
    /// Another candidate holds it, and for this long at least.
    Wait(Duration),
    /// We led, and another candidate holds it now.
    Lost,
}

/// The next step; `now` is for people who read the record.
pub fn decide(observed: &Observed<'_>, now: Timestamp) -> Step {
    let fresh = Record {
        holder: observed.identity.to_owned(),
        seconds: observed.seconds,
        transitions: 0,
        acquired: Some(now),
        renewed: Some(now),
    };
    let Some(record) = observed.record else { return Step::Create(fresh) };
    if record.holder == observed.identity {
        let acquired = record.acquired.or(Some(now));
        return Step::Update(Record { acquired, transitions: record.transitions, ..fresh });
    }
    if observed.leading && !record.holder.is_empty() {
        return Step::Lost;
    }
    let counts = Duration::from_secs(u64::try_from(record.seconds).unwrap_or(0));
    match counts.checked_sub(observed.unchanged) {
        Some(left) if !left.is_zero() && !record.holder.is_empty() => Step::Wait(left),
        _ => Step::Update(Record { transitions: record.transitions.saturating_add(1), ..fresh }),
    }
}

/// The record that hands the lease over: no holder, and one second in case a reader counts anyway.
pub fn released(record: &Record, now: Timestamp) -> Record {
    Record {
        holder: String::new(),
        seconds: 1,
        transitions: record.transitions,
        acquired: Some(now),
        renewed: Some(now),
    }
}
