//! What the status of a content says after an answer of the driver.

use bowline_api::snapshot::VolumeSnapshotContentStatus;

use super::super::model::Report;

/// Handle, time, size and group are written once; readiness follows the driver, and turning ready ends an error.
pub fn merged(old: Option<&VolumeSnapshotContentStatus>, report: &Report) -> VolumeSnapshotContentStatus {
    let old = old.cloned().unwrap_or_default();
    let size = Some(report.size).filter(|size| *size > 0);
    VolumeSnapshotContentStatus {
        snapshot_handle: old.snapshot_handle.or_else(|| Some(report.handle.clone())),
        creation_time: old.creation_time.or(Some(report.creation_time)),
        // 0 means that the driver does not know (5.10, 9).
        restore_size: old.restore_size.filter(|size| *size > 0).or(size),
        ready_to_use: Some(report.ready),
        error: old.error.filter(|_| !report.ready),
        volume_group_snapshot_handle: old
            .volume_group_snapshot_handle
            .or_else(|| report.group_handle.clone()),
    }
}
