//! What a deletion does to one object. Pure.

use bowline_api::keys;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::options::{Options, Propagation};
use crate::kinds::{Deletion, Dependents};
use crate::metadata;

#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Nothing holds the object.
    Remove,
    /// Its end is announced; somebody else lets it go.
    Announce(Value),
    /// All of this has been asked for before.
    Nothing,
}

/// What the kind says of an object.
#[derive(Debug, Clone, Copy)]
pub struct Character {
    pub deletion: Deletion,
    pub dependents: Dependents,
    /// A namespace whose content is not known to be gone.
    pub inhabited: bool,
}

pub fn plan(old: &Value, options: &Options, kind: Character, now: Timestamp) -> Plan {
    let announced = metadata::deleting(old);
    let before = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if kind.inhabited && announced {
        return Plan::Nothing;
    }
    let grace = match (before.filter(|before| announced && *before > 0), options.grace_period_seconds) {
        // While the object is given time, the only thing that counts is a wish for less of it.
        (Some(before), Some(wanted)) if wanted < before => wanted,
        (Some(_), _) => return Plan::Nothing,
        (None, _) if announced => 0,
        (None, _) => match kind.deletion {
            Deletion::Now => 0,
            Deletion::Graceful(seconds) => seconds.max(0),
        },
    };
    let finalizers = finalizers(&metadata::finalizers(old), options.propagation, kind.dependents);
    if grace == 0 && finalizers.is_empty() && !kind.inhabited {
        return Plan::Remove;
    }
    let Some(end) = end(old, announced, before.unwrap_or(0), grace, now) else { return Plan::Nothing };
    let mut new = old.clone();
    let generation = old["metadata"]["generation"].as_i64().filter(|generation| *generation > 0);
    if let Some(generation) = generation.filter(|_| !announced) {
        metadata::set(&mut new, "generation", Some((generation + 1).into()));
    }
    metadata::set(&mut new, "deletionTimestamp", Some(metadata::timestamp(end)));
    // A namespace has no time of its own: it ends when its content has.
    metadata::set(&mut new, "deletionGracePeriodSeconds", (!kind.inhabited).then(|| grace.into()));
    metadata::set(&mut new, "finalizers", (!finalizers.is_empty()).then(|| finalizers.into()));
    if new == *old { Plan::Nothing } else { Plan::Announce(new) }
}

/// Counted from when the deletion was asked for first. `None` if the time is out of range.
fn end(old: &Value, announced: bool, before: i64, grace: i64, now: Timestamp) -> Option<Timestamp> {
    if !announced {
        return now.checked_add(SignedDuration::from_secs(grace)).ok();
    }
    let end: Timestamp = metadata::text(old, "deletionTimestamp").parse().ok()?;
    end.checked_sub(SignedDuration::from_secs(before - grace)).ok()
}

/// The finalizers of the garbage collector as the policy wants them; all others stay.
///
/// An explicit wish wins, then what an earlier deletion left, then the custom of the kind.
fn finalizers(old: &[&str], wish: Option<Propagation>, custom: Dependents) -> Vec<String> {
    let own = [keys::ORPHAN_DEPENDENTS, keys::FOREGROUND_DELETION];
    let earlier = old.iter().find_map(|name| match *name {
        keys::ORPHAN_DEPENDENTS => Some(Propagation::Orphan),
        keys::FOREGROUND_DELETION => Some(Propagation::Foreground),
        _ => None,
    });
    let wanted = match custom {
        Dependents::None => None,
        Dependents::Background => wish.or(earlier),
        Dependents::Orphan => Some(wish.or(earlier).unwrap_or(Propagation::Orphan)),
    };
    let wanted = match wanted {
        None | Some(Propagation::Background) => None,
        Some(Propagation::Orphan) => Some(keys::ORPHAN_DEPENDENTS),
        Some(Propagation::Foreground) => Some(keys::FOREGROUND_DELETION),
    };
    // What is there already keeps its place.
    let kept = old.iter().filter(|name| !own.contains(name) || wanted == Some(**name));
    let mut all: Vec<String> = kept.map(|name| (*name).to_owned()).collect();
    let missing = wanted.filter(|wanted| !all.iter().any(|name| name == wanted));
    all.extend(missing.map(str::to_owned));
    all
}

#[cfg(test)]
mod tests;
