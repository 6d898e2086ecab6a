//! Kinds that make pods from a template: what they default to, what they refuse, what they show. Their controllers
//! are other programs.

pub mod cronjob;
pub mod daemonset;
pub mod deployment;
pub mod job;
pub mod podtemplate;
pub mod replicaset;
pub mod replicationcontroller;
mod schedule;
pub mod statefulset;
mod template;

pub use template::shown_labels;

use crate::field::Invalid;
use crate::kinds::check;
use crate::registry::Scale;

/// Where all of them keep their replicas.
fn replicas() -> Scale {
    let path = |names: [&'static str; 2]| names.into_iter().map(Into::into).collect::<Vec<_>>();
    Scale {
        spec_replicas: path(["spec", "replicas"]),
        status_replicas: path(["status", "replicas"]),
        selector: Some(path(["spec", "selector"])),
    }
}

/// Counts that a controller reports: none is negative, and some are parts of others.
struct Counts<'a>(&'a [(&'a str, Option<i64>)]);

impl Counts<'_> {
    fn of(&self, name: &str) -> i64 {
        self.0.iter().find(|(field, _)| *field == name).and_then(|(_, count)| *count).unwrap_or(0)
    }

    fn errors(&self) -> Vec<Invalid> {
        let negative = |(field, count): &(&str, Option<i64>)| {
            check::non_negative(&format!("status.{field}"), count.unwrap_or(0))
        };
        self.0.iter().filter_map(negative).collect()
    }

    /// `part` is no more than `whole`, which upstream calls `shown`.
    fn at_most(&self, part: &str, whole: &str, shown: &str) -> Option<Invalid> {
        let count = self.of(part);
        let text = format!("cannot be greater than {shown}");
        (count > self.of(whole)).then(|| Invalid::invalid(format!("status.{part}"), count, text))
    }
}

/// A count that only grows: what is derived from it must not repeat.
fn collisions(new: Option<i32>, old: Option<i32>) -> Option<Invalid> {
    let less = old.is_some_and(|old| new.unwrap_or(0) < old);
    let text = "cannot be decremented";
    less.then(|| Invalid::invalid("status.collisionCount", new.unwrap_or(0), text))
}
