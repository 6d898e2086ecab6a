//! Who goes, who is set free, and who waits. Pure.

use bowline_api::keys;
use bowline_machinery::Step;

use super::model::{Action, Observed, Owner, Policy, Stragglers, Why};

type Decision = Step<Action, Why>;

pub fn decide(seen: &Observed) -> Decision {
    if seen.node.deleting { release(seen) } else { collect(seen) }
}

/// An object on its way out is let go when its dependents are dealt with.
fn release(seen: &Observed) -> Decision {
    if seen.node.orphaning() {
        return match (seen.dependents.staying, seen.complete, &seen.stragglers) {
            (0, true, Stragglers::None) => Step::Do(Action::RemoveFinalizer(keys::ORPHAN_DEPENDENTS)),
            (0, true, Stragglers::Found(_)) => Step::Do(Action::TakeIn),
            (0, _, _) => Step::Wait(Why::Incomplete),
            (count, _, _) => Step::Wait(Why::Unorphaned(count)),
        };
    }
    if seen.node.in_foreground() {
        return match (seen.dependents.blocking, seen.complete) {
            (0, true) => Step::Do(Action::RemoveFinalizer(keys::FOREGROUND_DELETION)),
            (0, false) => Step::Wait(Why::Incomplete),
            (count, _) => Step::Wait(Why::Blocked(count)),
        };
    }
    Step::Done
}

fn collect(seen: &Observed) -> Decision {
    if seen.owners.is_empty() {
        return Step::Done;
    }
    if let Some(why) = seen.owners.iter().find_map(unresolved) {
        return Step::Wait(why);
    }
    let owners = |wanted: fn(Owner) -> bool| seen.owners.iter().filter(move |one| wanted(one.owner));
    // An owner that is there, or that was asked to leave its dependents alone, keeps the object.
    if owners(|owner| matches!(owner, Owner::Solid | Owner::Orphaning)).next().is_some() {
        let dead: Vec<String> =
            owners(|owner| owner != Owner::Solid).map(|one| one.reference.uid.clone()).collect();
        return if dead.is_empty() { Step::Done } else { Step::Do(Action::Disown(dead)) };
    }
    let awaited = owners(|owner| owner == Owner::Foreground).next().is_some();
    if awaited && seen.dependents.any {
        let blocking = seen.node.owners.iter().any(|owner| owner.block_owner_deletion == Some(true));
        if seen.dependents.in_foreground && blocking {
            return Step::Do(Action::Unblock);
        }
        return Step::Do(Action::Delete(Policy::Foreground));
    }
    Step::Do(Action::Delete(own_policy(seen)))
}

fn unresolved(one: &super::model::Referred) -> Option<Why> {
    match one.owner {
        Owner::Invalid => Some(Why::InvalidNamespace(Box::new(one.reference.clone()))),
        Owner::UnknownKind => Some(Why::UnknownKind {
            api_version: one.reference.api_version.clone(),
            kind: one.reference.kind.clone(),
        }),
        Owner::Solid | Owner::Gone | Owner::Elsewhere | Owner::Foreground | Owner::Orphaning => None,
    }
}

/// What somebody put on the object for the day of its deletion holds.
fn own_policy(seen: &Observed) -> Policy {
    if seen.node.has(keys::ORPHAN_DEPENDENTS) {
        Policy::Orphan
    } else if seen.node.has(keys::FOREGROUND_DELETION) {
        Policy::Foreground
    } else {
        Policy::Background
    }
}
