//! What can go wrong with a volume, and the one place that turns it into a gRPC code.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use bowline_host::kernel::KernelError;
use tonic::{Code, Status};

use crate::id::{Key, SnapshotId, VolumeId};

#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("field `{0}` is required")]
    Missing(&'static str),
    #[error("field `{field}` is invalid: {why}")]
    Invalid { field: &'static str, why: String },
    #[error("unsupported capability: {why}")]
    Unsupported { why: String },
    #[error("size refused: {why}")]
    OutOfRange { why: String },
    #[error("volume `{id}` not found")]
    NotFound { id: String },
    #[error("{noun} `{id}` not found")]
    Absent { noun: &'static str, id: String },
    #[error("node `{node}` not found")]
    UnknownNode { node: String },
    #[error("volume `{name}` exists with another {what}")]
    Incompatible { name: String, what: &'static str },
    #[error("{noun} `{name}` exists with another {what}")]
    Taken { noun: &'static str, name: String, what: &'static str },
    #[error("{what} is being deleted")]
    Going { what: Key },
    #[error("snapshot `{id}` belongs to {group}; delete that instead")]
    Member { id: SnapshotId, group: Key },
    #[error("field `snapshot_ids` does not name exactly the members of {group}")]
    OtherMembers { group: Key },
    #[error("volume `{id}` is frozen at `{path}` by something else; ask again when that has ended")]
    Frozen { id: VolumeId, path: PathBuf },
    #[error(
        "volume `{id}` is written to while it is copied, and its device cannot be stopped; stop the workload, \
         or keep the pool on a filesystem that shares blocks (xfs, btrfs) and cut this volume alone"
    )]
    Moving { id: VolumeId },
    #[error("offset {offset} is outside of the {size} bytes of the snapshot")]
    PastEnd { offset: i64, size: u64 },
    #[error("driver stops; ask the next one from the end of the last block on")]
    Stopping,
    #[error("no requested topology is served here")]
    Unreachable,
    #[error("{want} bytes requested, the pool may promise {left} more; delete volumes or raise its limits")]
    NoRoom { want: u64, left: u64 },
    #[error("{want} bytes requested, the pool has {total}")]
    TooLarge { want: u64, total: u64 },
    #[error("node `{node}` has its limit of {limit} volumes")]
    AttachLimit { node: String, limit: u32 },
    #[error("volume `{id}` is in use: {how}")]
    InUse { id: VolumeId, how: String },
    #[error("volume `{id}` is being deleted")]
    Deleting { id: VolumeId },
    #[error("volume `{id}` is published to node `{node}`")]
    PublishedElsewhere { id: VolumeId, node: String },
    #[error("volume `{id}` is already published with other arguments")]
    PublishedDifferently { id: VolumeId },
    #[error("volume `{id}` is not published to this node")]
    NotPublished { id: VolumeId },
    #[error("volume `{id}` cannot be reached from node `{node}`, its topology is another")]
    WrongPlace { id: VolumeId, node: String },
    #[error("volume `{id}` is not published at `{path}`")]
    NotAt { id: VolumeId, path: PathBuf },
    #[error("volume `{id}` belongs to group {group} as long as it is published at `{other}`")]
    GroupInUse { id: VolumeId, group: u32, other: PathBuf },
    #[error("volume `{id}` was not created for {what}")]
    Beyond { id: VolumeId, what: &'static str },
    #[error("volume `{id}` is already staged with another capability")]
    StagedDifferently { id: VolumeId },
    #[error("volume `{id}` is not staged at `{path}`; call NodeStageVolume first")]
    NotStaged { id: VolumeId, path: PathBuf },
    #[error(
        "volume `{id}` was staged at `{path}` and is not mounted there any more; call NodeStageVolume again"
    )]
    StagingLost { id: VolumeId, path: PathBuf },
    #[error(
        "the loop device of volume `{id}` has changed: {why}; end the workload, call NodeUnpublishVolume there and \
         NodeUnstageVolume, then stage it again"
    )]
    DeviceTaken { id: VolumeId, why: String },
    #[error("volume `{id}` allows one target and already has `{other}`")]
    SecondTarget { id: VolumeId, other: PathBuf },
    #[error("volume `{id}` is attached read-only for another node of this machine")]
    ReadOnlyElsewhere { id: VolumeId },
    #[error("volume `{id}` is attached writable, so a block target cannot be read-only")]
    WritableDevice { id: VolumeId },
    #[error("`{path}` is {what}")]
    Foreign { path: PathBuf, what: &'static str },
    #[error("volume `{id}` is not formatted and read-only access was asked for")]
    Unformatted { id: VolumeId },
    #[error("volume `{id}` holds {found}, `{wanted}` requested; nothing was changed")]
    HoldsData { id: VolumeId, found: String, wanted: &'static str },
    #[error("volume `{id}` is not at `{path}`")]
    NotShown { id: VolumeId, path: PathBuf },
    #[error(
        "volume `{id}` is mounted and this process may not grow its filesystem: give the node plugin \
         CAP_SYS_RESOURCE, or restart the pod, since the next staging grows it before it is mounted"
    )]
    MayNotGrow { id: VolumeId },
    #[error("volume `{id}` is mounted read-only, so its filesystem cannot grow")]
    ReadOnlyMount { id: VolumeId },
    #[error(
        "recorded for volume `{id}`, and in force when it is next staged, which takes a restart of its pods"
    )]
    AtNextAttachment { id: VolumeId, source: KernelError },
    #[error("no answer about `{path}` yet, its filesystem or the disk below may hang")]
    Silent { path: PathBuf },
    #[error("{count} filesystems owe an answer, no further one is asked")]
    Crowded { count: usize },
    #[error("volume `{id}` was formatted and now looks empty; nothing was changed")]
    DataLoss { id: VolumeId },
    #[error(
        "the {fs} of volume `{id}` is damaged and was not mounted; while nothing uses it, run `{repair}`"
    )]
    Damaged { id: VolumeId, fs: &'static str, repair: String, source: KernelError },
    #[error("volume `{id}` has a record, but `{path}` is gone; nothing was changed")]
    Vanished { id: VolumeId, path: PathBuf },
    #[error("volume `{id}` has {want} bytes, but `{path}` only {have}; nothing was changed")]
    Truncated { id: VolumeId, path: PathBuf, have: u64, want: u64 },
    #[error("{what} cannot be used: {why}; see `bowline driver local check`")]
    Quarantined { what: Key, why: String },
    #[error("another operation on {what} is in flight; it goes on, ask again")]
    Busy { what: Key },
    #[error("page token is not one of ours")]
    BadToken,
    #[error("pool `{pool}` is served by another process; stop that one, or choose another pool")]
    PoolTaken { pool: PathBuf },
    #[error(
        "pool `{pool}` belongs to the installation `{owner}` and this is `{own}`; use another pool, or remove `{path}` if \
         that installation is gone"
    )]
    PoolOfAnother { pool: PathBuf, owner: String, own: String, path: PathBuf },
    #[error(
        "pool `{pool}` is on a read-only filesystem and has no `{lock}`, without which a second process could serve it, \
         too; remount it writable and start again"
    )]
    NoLock { pool: PathBuf, lock: String },
    #[error("pool is not usable")]
    Unhealthy { source: io::Error },
    #[error("{what}: no room is left on the disk; free some, or enlarge it")]
    Full { what: &'static str, source: io::Error },
    #[error("{what}: the filesystem is read-only; see what the kernel says of it, and remount it writable")]
    ReadOnlyDisk { what: &'static str, source: io::Error },
    #[error("{what} needs {length} bytes of names and parameters, the pool keeps at most {most}")]
    TooMuch { what: Key, length: usize, most: usize },
    #[error("{what}")]
    Disk { what: &'static str, source: io::Error },
    #[error("{what}")]
    Kernel { what: &'static str, source: KernelError },
    #[error("write down {what}")]
    Encode { what: Key, source: serde_json::Error },
    #[error("operation ended without an answer")]
    Lost,
}

impl VolumeError {
    pub fn code(&self) -> Code {
        match self {
            Self::Missing(_)
            | Self::Invalid { .. }
            | Self::Unsupported { .. }
            | Self::TooMuch { .. }
            | Self::Member { .. }
            | Self::OtherMembers { .. } => Code::InvalidArgument,
            Self::OutOfRange { .. } | Self::PastEnd { .. } => Code::OutOfRange,
            Self::NotFound { .. }
            | Self::Absent { .. }
            | Self::UnknownNode { .. }
            | Self::NotShown { .. }
            | Self::NotAt { .. } => Code::NotFound,
            Self::Incompatible { .. }
            | Self::Taken { .. }
            | Self::PublishedDifferently { .. }
            | Self::StagedDifferently { .. } => Code::AlreadyExists,
            Self::Unreachable
            | Self::NoRoom { .. }
            | Self::TooLarge { .. }
            | Self::AttachLimit { .. }
            | Self::Full { .. } => Code::ResourceExhausted,
            Self::InUse { .. }
            | Self::PublishedElsewhere { .. }
            | Self::NotPublished { .. }
            | Self::WrongPlace { .. }
            | Self::Beyond { .. }
            | Self::GroupInUse { .. }
            | Self::NotStaged { .. }
            | Self::StagingLost { .. }
            | Self::DeviceTaken { .. }
            | Self::SecondTarget { .. }
            | Self::WritableDevice { .. }
            | Self::ReadOnlyElsewhere { .. }
            | Self::Foreign { .. }
            | Self::Unformatted { .. }
            | Self::HoldsData { .. }
            | Self::MayNotGrow { .. }
            | Self::ReadOnlyMount { .. }
            | Self::AtNextAttachment { .. }
            | Self::PoolTaken { .. }
            | Self::PoolOfAnother { .. }
            | Self::NoLock { .. }
            | Self::ReadOnlyDisk { .. }
            | Self::Moving { .. }
            | Self::Unhealthy { .. } => Code::FailedPrecondition,
            Self::Busy { .. }
            | Self::Deleting { .. }
            | Self::Going { .. }
            | Self::Frozen { .. }
            | Self::BadToken => Code::Aborted,
            Self::DataLoss { .. } | Self::Vanished { .. } | Self::Truncated { .. } | Self::Damaged { .. } => {
                Code::DataLoss
            }
            Self::Silent { .. } => Code::DeadlineExceeded,
            Self::Crowded { .. } | Self::Stopping => Code::Unavailable,
            Self::Disk { .. }
            | Self::Kernel { .. }
            | Self::Encode { .. }
            | Self::Quarantined { .. }
            | Self::Lost => Code::Internal,
        }
    }

    /// Whether a person has to look, as opposed to a caller that asked for something impossible.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::ReadOnlyDisk { .. } | Self::DeviceTaken { .. })
            || matches!(self.code(), Code::Internal | Code::DataLoss)
    }
}

/// The error and all its causes on one line; gRPC carries no other structure (details stay empty).
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl From<VolumeError> for Status {
    fn from(error: VolumeError) -> Self {
        Self::new(error.code(), chain(&error))
    }
}

/// Names the step a failed disk or kernel call belonged to.
pub trait During<T> {
    fn during(self, what: &'static str) -> Result<T, VolumeError>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, what: &'static str) -> Result<T, VolumeError> {
        self.map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => VolumeError::Full { what, source },
            io::ErrorKind::ReadOnlyFilesystem => VolumeError::ReadOnlyDisk { what, source },
            _ => VolumeError::Disk { what, source },
        })
    }
}

impl<T> During<T> for Result<T, KernelError> {
    fn during(self, what: &'static str) -> Result<T, VolumeError> {
        self.map_err(|source| VolumeError::Kernel { what, source })
    }
}
