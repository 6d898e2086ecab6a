//! Which faults can strike which effects. A cell that is left out has its reason here.

use std::sync::LazyLock;

use super::Fault;
use super::kind::{Kind, Opportunity};

use Opportunity::{After, Before, Call, LaggingList, Read, Watch, Write};

/// Requests that write.
const WRITES: &[&str] = &[
    "binding pod",
    "create configmap",
    "create csinode",
    "create lease",
    "create node",
    "create persistentvolume",
    "create serviceaccount",
    "create volumeattachment",
    "delete csinode",
    "delete lease",
    "delete persistentvolume",
    "delete pod",
    "delete volumeattachment",
    "patch node",
    "patch persistentvolume",
    "patch volumeattachment",
    "patch-status node",
    "patch-status pod",
    "patch-status volumeattachment",
    "update csinode",
    "update lease",
    "update persistentvolume",
    "update persistentvolumeclaim",
    "update-status persistentvolume",
    "update-status persistentvolumeclaim",
    "update-status pod",
];

/// Writes without a failpoint: events are told beside the work, and losing one harms nothing.
const UNGUARDED: &[&str] = &["create event", "patch event"];

/// Calls to drivers, and of the kubelet to registrars.
const CALLS: &[&str] = &[
    "ControllerGetCapabilities",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "CreateVolume",
    "DeleteVolume",
    "GetInfo",
    "GetPluginCapabilities",
    "GetPluginInfo",
    "ListVolumes",
    "NodeGetCapabilities",
    "NodeGetInfo",
    "NodeGetVolumeStats",
    "NodePublishVolume",
    "NodeStageVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "NotifyRegistrationStatus",
    "Probe",
];

/// What the kubelet does to its machine, and how a leader writes its lease.
const POINTS: &[&str] = &[
    "bind path",
    "lease write",
    "link path",
    "mkdir path",
    "record path",
    "record-pod path",
    "remove container",
    "remove path",
    "signal container",
    "start container",
    "unbind path",
    "unlink path",
];

/// Gaps between two effects of the driver, where it may die.
const GAPS: &[&str] = &[
    "local.controller-publish.after-record",
    "local.controller-publish.before-record",
    "local.controller-unpublish.after-record",
    "local.controller-unpublish.before-record",
    "local.create-volume.after-ready",
    "local.create-volume.before-dir",
    "local.create-volume.before-grow",
    "local.create-volume.before-image",
    "local.create-volume.before-ready",
    "local.create-volume.before-record",
    "local.delete-volume.after-dir",
    "local.delete-volume.after-image",
    "local.delete-volume.after-record",
    "local.delete-volume.before-image",
    "local.delete-volume.before-record",
    "local.node-publish.after-bind",
    "local.node-publish.before-bind",
    "local.node-publish.before-target",
    "local.node-stage.after-marker",
    "local.node-stage.after-mkfs",
    "local.node-stage.after-mount",
    "local.node-stage.before-attach",
    "local.node-stage.before-marker",
    "local.node-stage.before-mkfs",
    "local.node-stage.before-mount",
    "local.node-stage.before-probe",
    "local.node-stage.before-record",
    "local.node-stage.block.after-record",
    "local.node-stage.block.before-attach",
    "local.node-stage.block.before-record",
    "local.node-stage.share.after-bind",
    "local.node-stage.share.before-bind",
    "local.node-stage.share.before-record",
    "local.node-unpublish.after-remove",
    "local.node-unpublish.before-remove",
    "local.node-unpublish.before-unmount",
    "local.node-unstage.after-detach",
    "local.node-unstage.before-detach",
    "local.node-unstage.before-record",
    "local.node-unstage.before-unmount",
];

/// Gaps of the driver that only the call after a crash comes to, each with the gap where it has to die for that.
const GAPS_AFTER_CRASH: &[(&str, &str)] = &[
    ("local.node-stage.after-renew", "local.node-stage.after-mkfs"),
    ("local.node-stage.before-renew", "local.node-stage.after-mkfs"),
    ("local.node-stage.block.after-detach", "local.node-stage.block.before-record"),
];

/// Kinds that roles ask for past their caches.
const GETS: &[&str] = &[
    "get csinode",
    "get lease",
    "get node",
    "get persistentvolume",
    "get persistentvolumeclaim",
    "get pod",
    "get secret",
    "get volumeattachment",
];

/// Kinds whose caches decisions are made from.
const LISTS: &[&str] = &[
    "list csidriver",
    "list csinode",
    "list lease",
    "list node",
    "list persistentvolume",
    "list persistentvolumeclaim",
    "list pod",
    "list storageclass",
    "list volumeattachment",
];
const WATCHES: &[&str] = &[
    "watch csidriver",
    "watch csinode",
    "watch node",
    "watch persistentvolume",
    "watch persistentvolumeclaim",
    "watch pod",
    "watch storageclass",
    "watch volumeattachment",
];

fn rows() -> impl Iterator<Item = (&'static str, &'static [Opportunity])> {
    let group = |names: &'static [&'static str], moments: &'static [Opportunity]| {
        names.iter().map(move |name| (*name, moments))
    };
    let guarded = group(WRITES, &[Write, Before, After]).chain(group(UNGUARDED, &[Write]));
    let done = group(CALLS, &[Call, Before, After]).chain(group(POINTS, &[Before, After]));
    let read = group(GETS, &[Read]).chain(group(LISTS, &[Read, LaggingList])).chain(group(WATCHES, &[Watch]));
    let late = GAPS_AFTER_CRASH.iter().map(|(name, _)| (*name, &[Before][..]));
    guarded.chain(done).chain(group(GAPS, &[Before])).chain(late).chain(read)
}

/// What each program with a lease does when volumes are made and moved.
const LEADERS_WRITE: [&str; 3] = ["create volumeattachment", "patch-status volumeattachment", "binding pod"];

/// The faults with which a cell is reached: itself, and what has to come before it.
pub fn reaching(kind: Kind, effect: &'static str) -> Vec<Fault> {
    let needed = GAPS_AFTER_CRASH.iter().find(|(gap, _)| *gap == effect);
    let crash = needed.map(|(_, effect)| Fault { kind: Kind::CrashBefore, effect, nth: 0 });
    // Only a standby lists from a server's copy, and it does so when it starts: where one that leads has died, for example.
    let restart = (kind == Kind::Lagging).then_some(LEADERS_WRITE).into_iter().flatten();
    let restart = restart.map(|effect| Fault { kind: Kind::CrashAfter, effect, nth: 0 });
    crash.into_iter().chain(restart).chain([Fault { kind, effect, nth: 0 }]).collect()
}

/// What is left out, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("conflict at `create …`", "409 to a create says that the object exists, which would be a lie"),
    ("lagging at `get …` and `list lease`", "only a list that fills a cache may be answered from the past"),
    (
        "lagging at `list csidriver`",
        "the driver's object never changes: a server that is behind answers the same",
    ),
    (
        "codes NotFound, AlreadyExists, OutOfRange, Unimplemented",
        "each says something of the volume that would be a lie",
    ),
    (
        "lists and watches of other kinds",
        "the garbage collector reads them, and caches that decide nothing about volumes",
    ),
    (
        "crashes of programs and API servers at reads and watches",
        "a read changes nothing: dying there is dying before the next effect",
    ),
    (
        "faults of machines, clocks and people at reads, watches and failpoints",
        "they strike at writes and calls, and last longer than what is between two of these",
    ),
    (
        "crashes around `create event` and `patch event`",
        "a task beside the work writes events, without failpoints: dying there is dying at the role's next effect",
    ),
    ("faults of the API server's line at calls, and of the driver's at requests", "each line has its own"),
    ("deletion of an attachment by hand", "detaching is then what the person asked for"),
];

/// Why a fault cannot strike an effect although both know the moment.
pub fn excluded(kind: Kind, effect: &str) -> Option<&'static str> {
    match kind {
        Kind::Conflict if effect.starts_with("create ") => {
            Some("409 to a create says that the object exists, which would be a lie")
        }
        Kind::Lagging if effect == "list lease" => Some("it is asked past all caches"),
        Kind::Lagging if effect == "list csidriver" => Some("the driver's object never changes"),
        _ => None,
    }
}

/// Every cell of the table.
pub fn cells() -> Vec<(Kind, &'static str)> {
    let mut cells = Vec::new();
    for (effect, moments) in rows() {
        let fits = |kind: &&Kind| moments.iter().any(|moment| kind.fits(*moment));
        let kinds = Kind::ALL.iter().filter(fits).filter(|kind| excluded(**kind, effect).is_none());
        cells.extend(kinds.map(|kind| (*kind, effect)));
    }
    cells
}

/// Every cell, made once.
pub static CELLS: LazyLock<Vec<(Kind, &str)>> = LazyLock::new(cells);

/// Cells of effects that make, move or take away volumes.
pub static OF_VOLUMES: LazyLock<Vec<(Kind, &str)>> = LazyLock::new(|| {
    let calls = ["CreateVolume", "DeleteVolume", "ControllerPublish", "ControllerUnpublish", "NodePublish"];
    let calls = calls.iter().chain(&["NodeUnpublish", "NodeStage", "NodeUnstage"]);
    let objects = [" pod", " persistentvolume", " persistentvolumeclaim", " volumeattachment"];
    let of_volumes = |(_, effect): &(Kind, &str)| {
        calls.clone().any(|call| effect.starts_with(call))
            || objects.iter().any(|object| effect.ends_with(object))
            || effect.starts_with("local.")
            || POINTS.contains(effect)
    };
    cells().into_iter().filter(of_volumes).collect()
});

/// Whether an effect has a row for this moment, or is one that faults leave alone.
pub fn knows(moment: Opportunity, effect: &str) -> bool {
    matches!(moment, Read | LaggingList | Watch)
        || rows().any(|(name, moments)| name == effect && moments.contains(&moment))
}

/// What is left out of the table, and why.
pub fn reasons() -> impl Iterator<Item = (&'static str, &'static str)> {
    LEFT_OUT.iter().copied()
}
