//! Facts to findings: pure.

use bowline_proto::csi::v1::VolumeHealthErrorType as Status;

use crate::id::VolumeId;
use crate::local::devices::Taken;

/// Something adverse, in the words of CSI 1.13. Reason and status together are unique in one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub status: Status,
    /// CamelCase, for programs.
    pub reason: &'static str,
    /// For people: what is wrong and what to do.
    pub message: String,
}

/// What a look saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Bytes the volume has.
    pub capacity: u64,
    pub image: Image,
    pub attached: bool,
    /// What its users see instead of its device.
    pub taken: Option<Taken>,
    /// Only where a filesystem of the volume is mounted.
    pub filesystem: Option<Filesystem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    Bytes(u64),
    Missing,
    /// Being made anew; no workload has seen it, so nothing can be lost with it.
    Unfinished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filesystem {
    /// Noted by the kernel.
    pub errors: u64,
    /// Although nobody asked for that.
    pub refuses_writes: bool,
}

/// `was_attached` is what was known before: only a device that was there can have vanished.
pub fn judge(id: &VolumeId, facts: &Facts, was_attached: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |status, reason, message| findings.push(Finding { status, reason, message });
    match facts.image {
        Image::Missing => {
            let message =
                format!("the image of volume `{id}` is missing; restore it from a snapshot or a backup");
            find(Status::DataLoss, "ImageMissing", message);
        }
        Image::Bytes(bytes) if bytes < facts.capacity => {
            let message = format!(
                "the image of volume `{id}` has {bytes} bytes, the volume {}; restore it from a snapshot or a backup",
                facts.capacity
            );
            find(Status::DataLoss, "ImageTruncated", message);
        }
        Image::Bytes(_) | Image::Unfinished => {}
    }
    if let Some(taken) = &facts.taken {
        let reason = if taken.found.is_some() { "DeviceTaken" } else { "DeviceVanished" };
        let message = format!(
            "the loop device of volume `{id}` has changed: {}; end the workload, then stage it again",
            taken.describe()
        );
        find(Status::Inaccessible, reason, message);
    } else if was_attached && !facts.attached {
        let message =
            format!("volume `{id}` is staged and its loop device is gone; unstage it and stage it again");
        find(Status::Inaccessible, "DeviceVanished", message);
    }
    let Some(filesystem) = facts.filesystem else { return findings };
    if filesystem.errors > 0 {
        let message = format!(
            "the kernel has noted {} errors of the filesystem on volume `{id}`; staging it again checks it",
            filesystem.errors
        );
        find(Status::Degraded, "FilesystemErrors", message);
    }
    if filesystem.refuses_writes {
        let message = format!(
            "the filesystem on volume `{id}` has become read-only after an error; staging it again checks it"
        );
        find(Status::Degraded, "FilesystemReadOnly", message);
    }
    findings
}
