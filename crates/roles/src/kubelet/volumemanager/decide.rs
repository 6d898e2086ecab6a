//! What to do next with one volume. Reading this file is reading the behaviour.

mod expand;

use std::time::Duration;

use bowline_api::volume;

use super::model::{
    Action, AttachSeen, DriverSeen, Mode, Need, Observed, Presence, Staging, Step, Target, Want, Why,
};
use crate::kubelet::{PATIENCE, Reported};

pub use expand::smaller_than_volume;

/// How long an attachment is waited for before the node asks whether it will ever come: upstream's limit of one wait.
const ATTACH_PATIENCE: Duration = Duration::from_secs(123);

/// What is waited for, and when to tell the pod of it.
type Wait = (Why, Option<Duration>);

/// What can be done for each publication, those that failed least first and unmount before mount; then what nobody
/// needs any more.
pub fn decide(seen: &Observed) -> Step {
    plan(seen).0
}

/// When to look again because a pod is to be told what it waits for.
pub fn next_report(seen: &Observed) -> Option<Duration> {
    plan(seen).1
}

/// Of what failed equally often, what goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Unmount,
    Mount,
    Expand,
}

fn plan(seen: &Observed) -> (Step, Option<Duration>) {
    let mut waits: Vec<Wait> = Vec::new();
    let mut possible: Vec<(u32, Kind, Action)> = Vec::new();
    for (target, need) in &seen.needs {
        match next(seen, target, need) {
            Some(Ok(action)) => {
                let grows = seen.sizes.get(&target.spec_name).map_or(0, |size| size.failures);
                let (failures, kind) = match (need.want, need.presence) {
                    (Want::Mounted, Presence::Present) => (grows.max(need.failures), Kind::Expand),
                    (Want::Mounted, Presence::Unexpanded) => (grows, Kind::Mount),
                    (Want::Mounted, _) => (need.failures, Kind::Mount),
                    (Want::AsItIs | Want::Gone, _) => (need.failures, Kind::Unmount),
                };
                possible.push((failures, kind, action));
            }
            Some(Err(wait)) => waits.push(wait),
            None => {}
        }
    }
    let first = possible.into_iter().min_by_key(|(failures, kind, _)| (*failures, *kind));
    if let Some((_, _, action)) = first {
        return (Step::Do(action), None);
    }
    match unneeded_stage(seen) {
        Some(Ok(staging)) => return (Step::Do(Action::Unstage(staging)), None),
        Some(Err(why)) => match left_staged(seen, why) {
            Ok(action) => return (Step::Do(action), None),
            Err(wait) => waits.push(wait),
        },
        None => {}
    }
    let empty = seen.needs.values().all(|n| n.want != Want::Mounted && n.presence == Presence::Absent)
        && seen.stages.values().all(|p| *p == Presence::Absent);
    let look = waits.iter().filter_map(|(_, at)| *at).min();
    let step = match waits.into_iter().next() {
        Some((why, _)) => Step::Wait(why),
        None if empty => Step::Do(Action::Forget),
        None => Step::Done,
    };
    (step, look)
}

fn next(seen: &Observed, target: &Target, need: &Need) -> Option<Result<Action, Wait>> {
    let quietly = |why| (why, None);
    match (need.want, need.presence) {
        (Want::Mounted, Presence::Present) if republish_due(seen, need) => {
            Some(Ok(Action::Republish(target.clone())))
        }
        (Want::Mounted, Presence::Present | Presence::Unexpanded) => expand::expand(seen, target, need),
        (Want::Mounted, Presence::Absent | Presence::Uncertain) => Some(mount(seen, target, need)),
        (Want::AsItIs | Want::Gone, Presence::Absent) => None,
        (Want::AsItIs, _) => Some(Err(quietly(Why::InUse))),
        (Want::Gone, _) => Some(unmount(seen, target, need)),
    }
}

/// Drivers whose volumes show what changes, such as tokens, ask for it. One that is away is asked when it is back.
fn republish_due(seen: &Observed, need: &Need) -> bool {
    let registered = matches!(seen.driver, DriverSeen::Registered { .. });
    registered && need.republish_at.is_some_and(|at| at <= seen.now)
}

/// A pod that cannot leave because the driver is away says so: no other part would.
fn unmount(seen: &Observed, target: &Target, need: &Need) -> Result<Action, Wait> {
    let Err(why) = may_take_down(seen) else { return Ok(Action::Unpublish(target.clone())) };
    let DriverSeen::Missing { since } = seen.driver else { return Err((why, None)) };
    let (step, call) = match need.mode {
        Mode::Filesystem => ("UnmountVolume.TearDown", "Unmounter.TearDownAt"),
        Mode::Block => ("UnmapVolume.TearDown", "blockMapper.TearDownDevice"),
    };
    let text = format!(
        "{step} failed for volume \"{}\" : kubernetes.io/csi: {call} failed to get CSI client: {}",
        target.spec_name,
        Why::DriverMissing(seen.driver_name.clone())
    );
    tell(seen, target, need, text, since.saturating_add(PATIENCE), why)
}

/// The hand-over comes first, then the driver, then stage before publish (NODE-1).
fn mount(seen: &Observed, target: &Target, need: &Need) -> Result<Action, Wait> {
    match seen.attach {
        AttachSeen::NotListed => return Ok(Action::ListInUse),
        AttachSeen::NotAccepted => return unattached(seen, target, need, Why::NotAccepted),
        AttachSeen::NotInNodeStatus => {
            return unattached(seen, target, need, Why::NotInNodeStatus(seen.volume.clone()));
        }
        AttachSeen::NotRequired | AttachSeen::Attached => {}
    }
    if let Some(text) = obstacle(seen, target, need) {
        return tell(seen, target, need, text.clone(), seen.now, Why::Blocked(text));
    }
    let stages = match seen.driver {
        DriverSeen::Registered { stages, .. } => stages,
        DriverSeen::Missing { since } => return driver_missing(seen, target, need, since),
    };
    let staged = seen.stages.get(&Staging::of(target, need.mode)) == Some(&Presence::Present);
    if stages && !staged && !seen.inline {
        return Ok(Action::Stage(target.clone()));
    }
    Ok(Action::Publish(target.clone()))
}

/// Tells the pod at `first`, and again while nothing changes; waits in between.
fn tell(
    seen: &Observed,
    target: &Target,
    need: &Need,
    text: String,
    first: Duration,
    why: Why,
) -> Result<Action, Wait> {
    let due = Reported::due(need.reported.as_ref(), &text, first);
    if due <= seen.now { Ok(Action::Report(target.clone(), text)) } else { Err((why, Some(due))) }
}

/// A driver that is not registered may be why nothing is attached: nobody else would say so.
fn unattached(seen: &Observed, target: &Target, need: &Need, why: Why) -> Result<Action, Wait> {
    let driver = match seen.driver {
        DriverSeen::Missing { since } if since.saturating_add(PATIENCE) <= seen.now => {
            format!("; {}", Why::DriverMissing(seen.driver_name.clone()))
        }
        DriverSeen::Missing { .. } | DriverSeen::Registered { .. } => String::new(),
    };
    let name = &need.volume;
    let text = format!(
        "Unable to attach or mount volumes: unmounted volumes=[{name}], unattached volumes=[{name}], failed to process volumes=[]: {why}{driver}"
    );
    let since = need.since.unwrap_or(seen.now);
    let told = tell(seen, target, need, text, since.saturating_add(PATIENCE), why);
    let period = seen.csi_driver.as_ref().and_then(|d| d.spec.node_allocatable_update_period_seconds);
    let check = period.map(|_| need.limit_checked.unwrap_or(since).saturating_add(ATTACH_PATIENCE));
    match (told, check) {
        (Err(_), Some(at)) if at <= seen.now => Ok(Action::CheckAttachLimit(target.clone())),
        (Err((why, report)), Some(at)) => Err((why, Some(report.map_or(at, |report| report.min(at))))),
        (told, _) => told,
    }
}

fn driver_missing(seen: &Observed, target: &Target, need: &Need, since: Duration) -> Result<Action, Wait> {
    let patience = since.saturating_add(PATIENCE);
    let missing = Why::DriverMissing(seen.driver_name.clone());
    let (step, call) = match need.mode {
        Mode::Filesystem => ("MountVolume.MountDevice", "attacher.MountDevice"),
        Mode::Block => ("MapVolume.SetUpDevice", "blockMapper.SetUpDevice"),
    };
    let text = format!(
        "{step} failed for volume \"{}\" : kubernetes.io/csi: {call} failed to create newCsiDriverClient: {missing}",
        target.spec_name
    );
    let why = if seen.now < patience { Why::DriverStarting(patience) } else { missing };
    tell(seen, target, need, text, patience, why)
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
    let why = unsupported_mode(seen)?;
    Some(format!("{verb}.{set_up} failed for volume \"{name}\" : {why}"))
}

/// Without a CSIDriver object, and where it names no modes, only volumes of claims are meant.
fn unsupported_mode(seen: &Observed) -> Option<String> {
    let mode = if seen.inline { "Ephemeral" } else { "Persistent" };
    let default = ["Persistent".to_owned()];
    let modes =
        seen.csi_driver.as_ref().map(|d| d.spec.volume_lifecycle_modes.as_deref().unwrap_or_default());
    let named = modes.filter(|modes| !modes.is_empty()).unwrap_or(&default);
    if named.iter().any(|supported| supported == mode) {
        return None;
    }
    let supported = match modes {
        Some(_) => format!("only supports {named:?}"),
        None => "no CSIDriver object".to_owned(),
    };
    Some(format!("volume mode {mode:?} not supported by driver {} ({supported})", seen.driver_name))
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

/// A volume that stays staged because the driver is away holds up its next node: no pod is there to say so.
fn left_staged(seen: &Observed, why: Why) -> Result<Action, Wait> {
    let DriverSeen::Missing { since } = seen.driver else { return Err((why, None)) };
    let text = format!(
        "UnmountDevice failed for volume \"{}\" : kubernetes.io/csi: attacher.UnmountDevice failed to create newCsiDriverClient: {}",
        seen.volume,
        Why::DriverMissing(seen.driver_name.clone())
    );
    let due = Reported::due(seen.reported.as_ref(), &text, since.saturating_add(PATIENCE));
    if due <= seen.now { Ok(Action::ReportNode(text)) } else { Err((why, Some(due))) }
}

fn may_take_down(seen: &Observed) -> Result<(), Why> {
    match seen.driver {
        _ if !seen.may_unmount => Err(Why::NotCounted),
        DriverSeen::Missing { .. } => Err(Why::DriverMissing(seen.driver_name.clone())),
        DriverSeen::Registered { .. } => Ok(()),
    }
}
