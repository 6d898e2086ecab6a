//! What can go wrong with a volume, and the one place that turns it into a gRPC code.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use bowline_host::kernel::KernelError;
use tonic::{Code, Status};

use crate::id::{Key, VolumeId};

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
    #[error("node `{node}` not found")]
    UnknownNode { node: String },
    #[error("volume `{name}` exists with another {what}")]
    Incompatible { name: String, what: &'static str },
    #[error("no requested topology is served here")]
    Unreachable,
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
    #[error("volume `{id}` was not created for {what}")]
    Beyond { id: VolumeId, what: &'static str },
    #[error("volume `{id}` is already staged with another capability")]
    StagedDifferently { id: VolumeId },
    #[error("volume `{id}` is not staged at this path")]
    NotStaged { id: VolumeId },
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
    #[error("volume `{id}` was formatted and now looks empty; nothing was changed")]
    DataLoss { id: VolumeId },
    #[error("another operation on {what} is in flight; it goes on, ask again")]
    Busy { what: Key },
    #[error("page token is not one of ours")]
    BadToken,
    #[error("pool is not usable")]
    Unhealthy { source: io::Error },
    #[error("{what}")]
    Disk { what: &'static str, source: io::Error },
    #[error("{what}")]
    Kernel { what: &'static str, source: KernelError },
    #[error("record `{path}` is unreadable")]
    Record { path: PathBuf, source: serde_json::Error },
    #[error("operation ended without an answer")]
    Lost,
}

impl VolumeError {
    pub fn code(&self) -> Code {
        match self {
            Self::Missing(_) | Self::Invalid { .. } | Self::Unsupported { .. } => Code::InvalidArgument,
            Self::OutOfRange { .. } => Code::OutOfRange,
            Self::NotFound { .. } | Self::UnknownNode { .. } => Code::NotFound,
            Self::Incompatible { .. }
            | Self::PublishedDifferently { .. }
            | Self::StagedDifferently { .. } => Code::AlreadyExists,
            Self::Unreachable | Self::TooLarge { .. } | Self::AttachLimit { .. } => Code::ResourceExhausted,
            Self::InUse { .. }
            | Self::PublishedElsewhere { .. }
            | Self::NotPublished { .. }
            | Self::WrongPlace { .. }
            | Self::Beyond { .. }
            | Self::NotStaged { .. }
            | Self::SecondTarget { .. }
            | Self::WritableDevice { .. }
            | Self::ReadOnlyElsewhere { .. }
            | Self::Foreign { .. }
            | Self::Unformatted { .. }
            | Self::HoldsData { .. }
            | Self::Unhealthy { .. } => Code::FailedPrecondition,
            Self::Busy { .. } | Self::Deleting { .. } | Self::BadToken => Code::Aborted,
            Self::DataLoss { .. } => Code::DataLoss,
            Self::Disk { source, .. } if is_full(source) => Code::ResourceExhausted,
            Self::Disk { .. } | Self::Kernel { .. } | Self::Record { .. } | Self::Lost => Code::Internal,
        }
    }

    /// Whether a person has to look, as opposed to a caller that asked for something impossible.
    pub fn is_ours(&self) -> bool {
        matches!(self.code(), Code::Internal | Code::DataLoss)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
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
        self.map_err(|source| VolumeError::Disk { what, source })
    }
}

impl<T> During<T> for Result<T, KernelError> {
    fn during(self, what: &'static str) -> Result<T, VolumeError> {
        self.map_err(|source| VolumeError::Kernel { what, source })
    }
}
