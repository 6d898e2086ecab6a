//! What a snapshot's status says of its content.

use bowline_api::snapshot::{VolumeSnapshotError, VolumeSnapshotStatus};
use bowline_api::{Meta, VolumeSnapshotContent, bytes_of, quantity_of};
use bowline_machinery::Step;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::model::{Action, Problem, Snapshot, Why};
use super::Decision;

/// Brings the status up to date; what was said once about name, time and size stays.
pub(super) fn copy(seen: &Snapshot, content: &VolumeSnapshotContent) -> Decision {
    let new = status_of(seen.object.status.as_ref(), content);
    let ready = new.ready_to_use == Some(true);
    match &seen.object.status {
        Some(old) if *old == new && ready => Step::Done,
        Some(old) if *old == new => Step::Wait(Why::NotReady),
        _ => Step::Do(Action::UpdateStatus(Box::new(new))),
    }
}

fn status_of(old: Option<&VolumeSnapshotStatus>, content: &VolumeSnapshotContent) -> VolumeSnapshotStatus {
    let old = old.cloned().unwrap_or_default();
    let from = content.status.clone().unwrap_or_default();
    let known_size = |size: &_| bytes_of(size).is_ok_and(|bytes| bytes > 0);
    VolumeSnapshotStatus {
        bound_volume_snapshot_content_name: old
            .bound_volume_snapshot_content_name
            .filter(|name| !name.is_empty())
            .or_else(|| Some(content.name().to_owned())),
        creation_time: old.creation_time.or_else(|| from.creation_time.and_then(seconds)),
        ready_to_use: Some(from.ready_to_use == Some(true)),
        restore_size: old
            .restore_size
            .filter(known_size)
            .or_else(|| from.restore_size.filter(|bytes| *bytes > 0).map(quantity_of)),
        // Always the content's: set, replaced or cleared. A comparison of readiness alone would lose it.
        error: from.error,
        volume_group_snapshot_name: old.volume_group_snapshot_name,
    }
}

/// Nanoseconds as a timestamp of the API, which has seconds.
fn seconds(nanoseconds: i64) -> Option<Time> {
    Timestamp::from_second(nanoseconds.div_euclid(1_000_000_000)).ok().map(Time)
}

/// The status with a problem in it.
pub fn with_error(
    old: Option<&VolumeSnapshotStatus>,
    problem: &Problem,
    now: Timestamp,
) -> VolumeSnapshotStatus {
    let mut status = old.cloned().unwrap_or_default();
    if problem.not_ready || status.ready_to_use.is_none() {
        status.ready_to_use = Some(false);
    }
    let time = Timestamp::from_second(now.as_second()).ok().map(Time);
    status.error = Some(VolumeSnapshotError { time, message: Some(problem.message.clone()) });
    status
}
