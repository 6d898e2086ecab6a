//! What to do next with one volume. Reading this file is reading the behaviour.

use std::time::Duration;

use bowline_api::volume;

use super::world::{
    Action, AttachSeen, DriverSeen, Mode, Need, Observed, Presence, Staging, Step, Target, Want, Why,
};

/// A driver that has been away for this long is worth an event.
const DRIVER_PATIENCE: Duration = Duration::from_secs(10);

/// What can be done for each publication, those that failed least first and unmount before mount; then what nobody
/// needs any more.
pub fn decide(seen: &Observed) -> Step {
    let mut waits = Vec::new();
    let mut possible: Vec<(u32, bool, Action)> = Vec::new();
    for (target, need) in &seen.needs {
        match next(seen, target, need) {
            Some(Ok(action)) => possible.push((need.failures, need.want == Want::Mounted, action)),
            Some(Err(why)) => waits.push(why),
            None => {}
        }
    }
    let first = possible.into_iter().min_by_key(|(failures, mount, _)| (*failures, *mount));
    if let Some((_, _, action)) = first {
        return Step::Do(action);
    }
    match unneeded_stage(seen) {
        Some(Ok(staging)) => return Step::Do(Action::Unstage(staging)),
        Some(Err(why)) => waits.push(why),
        None => {}
    }
    let empty = seen.needs.values().all(|n| n.want != Want::Mounted && n.presence == Presence::Absent)
        && seen.stages.values().all(|p| *p == Presence::Absent);
    match waits.into_iter().next() {
        Some(why) => Step::Wait(why),
        None if empty => Step::Do(Action::Forget),
        None => Step::Done,
    }
}

fn next(seen: &Observed, target: &Target, need: &Need) -> Option<Result<Action, Why>> {
    match (need.want, need.presence) {
        (Want::Mounted, Presence::Present) => None,
        (Want::Mounted, Presence::Absent | Presence::Uncertain) => Some(mount(seen, target, need)),
        (Want::AsItIs | Want::Gone, Presence::Absent) => None,
        (Want::AsItIs, Presence::Uncertain | Presence::Present) => Some(Err(Why::InUse)),
        (Want::Gone, Presence::Uncertain | Presence::Present) => {
            Some(may_take_down(seen).map(|()| Action::Unpublish(target.clone())))
        }
    }
}

/// The hand-over comes first, then the driver, then stage before publish (NODE-1).
fn mount(seen: &Observed, target: &Target, need: &Need) -> Result<Action, Why> {
    match seen.attach {
        AttachSeen::NotListed => return Ok(Action::ListInUse),
        AttachSeen::NotAccepted => return Err(Why::NotAccepted),
        AttachSeen::NotInNodeStatus => return Err(Why::NotInNodeStatus(seen.volume.clone())),
        AttachSeen::NotAttached => return Err(Why::NotAttached),
        AttachSeen::NotRequired | AttachSeen::Unverified | AttachSeen::Verified => {}
    }
    if let Some(text) = obstacle(seen, target, need) {
        let told = need.reported.as_ref() == Some(&text);
        return if told { Err(Why::Blocked(text)) } else { Ok(Action::Report(target.clone(), text)) };
    }
    let stages = match seen.driver {
        DriverSeen::Registered { stages } => stages,
        DriverSeen::Missing { since } => return driver_missing(seen, target, need, since),
    };
    if seen.attach == AttachSeen::Unverified {
        return Ok(Action::VerifyAttached(target.clone()));
    }
    let staged = seen.stages.get(&Staging::of(target, need.mode)) == Some(&Presence::Present);
    if stages && !staged {
        return Ok(Action::Stage(target.clone()));
    }
    Ok(Action::Publish(target.clone()))
}

fn driver_missing(
    seen: &Observed,
    target: &Target,
    need: &Need,
    since: jiff::Timestamp,
) -> Result<Action, Why> {
    let patience = since.checked_add(DRIVER_PATIENCE).unwrap_or(since);
    if seen.now < patience {
        return Err(Why::DriverStarting(patience));
    }
    let why = Why::DriverMissing(seen.driver_name.clone());
    let (step, call) = match need.mode {
        Mode::Filesystem => ("MountVolume.MountDevice", "attacher.MountDevice"),
        Mode::Block => ("MapVolume.SetUpDevice", "blockMapper.SetUpDevice"),
    };
    let text = format!(
        "{step} failed for volume \"{}\" : kubernetes.io/csi: {call} failed to create newCsiDriverClient: {why}",
        target.spec_name
    );
    if need.reported.as_ref() == Some(&text) {
        return Err(why);
    }
    Ok(Action::Report(target.clone(), text))
}

/// What no retry cures, in upstream's words.
fn obstacle(seen: &Observed, target: &Target, need: &Need) -> Option<String> {
    let name = &target.spec_name;
    let (verb, set_up) = match need.mode {
        Mode::Filesystem => ("MountVolume", "SetUp"),
        Mode::Block => ("MapVolume", "MapPodDevice"),
    };
    if seen.unreachable.contains(name) {
        return Some(format!(
            "{verb}.NodeAffinity check failed for volume \"{name}\" : no matching NodeSelectorTerms"
        ));
    }
    let elsewhere = |(other, need): (&Target, &Need)| {
        other.pod_uid != target.pod_uid && need.presence != Presence::Absent
    };
    let only_pod = seen
        .sources
        .get(name)
        .is_some_and(|v| volume::volume_access_modes(v) == [volume::READ_WRITE_ONCE_POD]);
    if only_pod && seen.needs.iter().any(elsewhere) {
        return Some(format!(
            "{verb}.{set_up} failed for volume \"{name}\" : volume uses the ReadWriteOncePod access mode and is already in use by another pod"
        ));
    }
    let modes = seen.csi_driver.as_ref().and_then(|d| d.spec.volume_lifecycle_modes.as_deref());
    match modes {
        Some(modes) if !modes.is_empty() && !modes.iter().any(|m| m == "Persistent") => Some(format!(
            "{verb}.{set_up} failed for volume \"{name}\" : volume mode \"Persistent\" not supported by driver {} (only supports {modes:?})",
            seen.driver_name
        )),
        _ => None,
    }
}

/// A stage goes when nobody has the volume published from it, might have, or wants to (NODE-1).
fn unneeded_stage(seen: &Observed) -> Option<Result<Staging, Why>> {
    let needed = |staging: &Staging| {
        seen.needs.iter().any(|(target, need)| {
            Staging::of(target, need.mode) == *staging
                && (need.want == Want::Mounted || need.presence != Presence::Absent)
        })
    };
    let (staging, _) = seen.stages.iter().find(|(s, p)| **p != Presence::Absent && !needed(s))?;
    Some(may_take_down(seen).map(|()| staging.clone()))
}

fn may_take_down(seen: &Observed) -> Result<(), Why> {
    match seen.driver {
        _ if !seen.may_unmount => Err(Why::NotCounted),
        DriverSeen::Missing { .. } => Err(Why::DriverMissing(seen.driver_name.clone())),
        DriverSeen::Registered { .. } => Ok(()),
    }
}
