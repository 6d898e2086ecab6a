//! What happens to a claim.

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, keys, volume};
use bowline_machinery::Step;

use super::super::model::{Action, ClaimSeen, Loss, Why};
use super::{matching, migration_due, shows};

pub(super) fn decide(seen: &ClaimSeen) -> Step<Action, Why> {
    let claim = &*seen.claim;
    let asked = claim.annotation(keys::STORAGE_PROVISIONER);
    let asked = asked.or_else(|| claim.annotation(keys::STORAGE_PROVISIONER_BETA));
    if let Some(driver) = migration_due(asked, claim.annotation(keys::MIGRATED_TO)) {
        return Step::Do(Action::MigrateClaim(driver));
    }
    if claim.annotation(keys::BIND_COMPLETED).is_some() {
        complete(seen)
    } else if volume::claim_volume(claim).is_empty() {
        searching(seen)
    } else {
        choosing(seen)
    }
}

/// The claim names no volume yet.
fn searching(seen: &ClaimSeen) -> Step<Action, Why> {
    let claim = &*seen.claim;
    let delayed = seen.class.as_deref().is_some_and(volume::waits_for_consumer);
    if let Some(found) = matching::reserved(claim, &seen.candidates) {
        return bind(claim, found);
    }
    if claim.deleting() {
        return Step::Wait(Why::Deleting);
    }
    // Only the scheduler knows the node, so only it takes free volumes for a claim that waits for its consumer.
    let free = if delayed { None } else { matching::free(claim, &seen.candidates, |_| true) };
    if let Some(found) = free {
        return bind(claim, found);
    }
    match (volume::claim_class(claim), &seen.default_class) {
        (None, Some(default)) => Step::Do(Action::AssignClass(default.clone())),
        (None | Some(""), _) => pending(claim, Why::NoVolumeNoClass),
        (Some(_), _) if delayed && claim.annotation(keys::SELECTED_NODE).is_none() => {
            let why = if seen.pods.is_empty() { Why::Consumer } else { Why::Pods(seen.pods.clone()) };
            pending(claim, why)
        }
        (Some(class), _) => request(seen, class),
    }
}

/// No volume fits: whoever the class names is asked to make one.
fn request(seen: &ClaimSeen, class: &str) -> Step<Action, Why> {
    if !seen.provisioning {
        return Step::Wait(Why::ProvisioningOff);
    }
    let Some(class) = &seen.class else { return Step::Wait(Why::NoClass(class.into())) };
    let plugin = class.provisioner.as_str();
    let provisioner = match keys::migrated_driver(plugin) {
        Some(driver) => driver,
        None if plugin.starts_with(keys::NATIVE_PREFIX) => return Step::Wait(Why::NoPlugin(plugin.into())),
        None => plugin,
    };
    if seen.claim.annotation(keys::STORAGE_PROVISIONER) == Some(provisioner) {
        Step::Wait(Why::External(provisioner.into()))
    } else {
        Step::Do(Action::Request { provisioner: provisioner.into() })
    }
}

/// The claim names a volume, by a person's choice or because a bind stopped half-way.
fn choosing(seen: &ClaimSeen) -> Step<Action, Why> {
    let claim = &*seen.claim;
    let name = volume::claim_volume(claim);
    let Some(named) = &seen.named else { return pending(claim, Why::NamedMissing(name.into())) };
    match volume::claim_ref(named) {
        None if claim.deleting() => Step::Wait(Why::Deleting),
        None => match matching::objection(claim, named) {
            Some(problem) => pending(claim, Why::Mismatch { volume: name.into(), problem }),
            None => bind(claim, named),
        },
        // Both sides name each other: somebody meant it, so nothing is checked.
        Some(reference) if volume::refers_to(reference, claim) => bind(claim, named),
        Some(_) => pending(claim, Why::Taken(name.into())),
    }
}

/// The claim was bound once. It stays with its volume, or is Lost until that comes back.
fn complete(seen: &ClaimSeen) -> Step<Action, Why> {
    let claim = &*seen.claim;
    if volume::claim_volume(claim).is_empty() {
        return lost(claim, Loss::NoReference);
    }
    let Some(named) = &seen.named else { return lost(claim, Loss::NoVolume) };
    match volume::claim_ref(named) {
        None => bind(claim, named),
        Some(reference) if reference.uid.as_deref() == Some(claim.uid()) => bind(claim, named),
        Some(_) => lost(claim, Loss::Misbound),
    }
}

/// The next of the four writes that bind.
///
/// # Crash safety
/// The volume is reserved before the claim names it: dying in between leaves a reservation, which the next pass
/// prefers. Nothing is read back but the objects themselves.
fn bind(claim: &PersistentVolumeClaim, to: &PersistentVolume) -> Step<Action, Why> {
    let volume = to.name().to_owned();
    if !refers_exactly(to, claim) {
        Step::Do(Action::Reserve { volume })
    } else if volume::volume_phase(to) != volume::BOUND {
        Step::Do(Action::MarkBound { volume })
    } else if volume::claim_volume(claim) != volume || claim.annotation(keys::BIND_COMPLETED).is_none() {
        Step::Do(Action::Complete { volume })
    } else if !shows(claim, volume::BOUND, Some(to)) {
        Step::Do(Action::MarkClaimBound { volume })
    } else {
        Step::Done
    }
}

fn refers_exactly(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume::claim_ref(volume)
        .is_some_and(|r| volume::refers_to(r, claim) && r.uid.as_deref() == Some(claim.uid()))
}

fn pending(claim: &PersistentVolumeClaim, why: Why) -> Step<Action, Why> {
    if shows(claim, volume::PENDING, None) { Step::Wait(why) } else { Step::Do(Action::MarkClaimPending) }
}

fn lost(claim: &PersistentVolumeClaim, loss: Loss) -> Step<Action, Why> {
    if shows(claim, volume::LOST, None) { Step::Done } else { Step::Do(Action::MarkClaimLost(loss)) }
}
