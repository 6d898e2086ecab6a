//! Mounts, loop devices and filesystem tools.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the device below.
    pub device: String,
    /// What inside that filesystem is mounted.
    pub root: PathBuf,
    pub target: PathBuf,
    /// Options of this mount point (`ro`, `relatime`, …), not of the superblock.
    pub options: Vec<String>,
    pub fs_type: String,
    pub source: String,
}

impl Mount {
    pub fn read_only(&self) -> bool {
        self.options.iter().any(|o| o == "ro")
    }
}

/// What the first bytes of a device say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Empty,
    Filesystem(String),
    /// Partition table, LVM, or anything else that must not be formatted.
    Other(String),
}

/// A kernel call or tool failed.
#[derive(Debug, thiserror::Error)]
#[error("{what} failed: {why}")]
pub struct KernelError {
    pub what: String,
    pub why: String,
    /// The raw errno where there is one.
    pub errno: Option<i32>,
}

impl KernelError {
    /// A call that ended with an errno; its text becomes the reason.
    pub fn errno(what: impl Into<String>, errno: i32) -> Self {
        let why = nix::errno::Errno::from_raw(errno).desc().to_lowercase();
        Self { what: what.into(), why, errno: Some(errno) }
    }

    /// A failure without an errno, such as a tool's own complaint.
    pub fn other(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), errno: None }
    }

    /// A failed call of the standard library; keeps the errno where there is one.
    pub fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::errno(what, errno),
            None => Self::other(what, error.to_string()),
        }
    }
}

pub type Result<T> = std::result::Result<T, KernelError>;

#[async_trait]
pub trait Kernel: Send + Sync {
    /// The mount table, oldest first: later entries hide earlier ones at the same path.
    async fn mounts(&self) -> Result<Vec<Mount>>;
    /// The topmost mount at exactly this path; cheap when there is none, however long the table is.
    async fn mount_at(&self, target: &Path) -> Result<Option<Mount>>;
    /// Mounts a device. `options` are mount(8) words, both flags and filesystem data.
    async fn mount(&self, device: &Path, target: &Path, fs_type: &str, options: &[String]) -> Result<()>;
    /// Bind-mounts a directory, file or device; read-only in the same step for observers.
    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<()>;
    /// Unmounts the topmost mount at `target`. Not mounted is success.
    async fn unmount(&self, target: &Path) -> Result<()>;
    /// Attaches a loop device to an image, or returns the one that already has it.
    async fn loop_attach(&self, image: &Path, read_only: bool) -> Result<PathBuf>;
    /// The loop device that has this image as backing file, if any.
    async fn loop_of(&self, image: &Path) -> Result<Option<PathBuf>>;
    /// Detaches a loop device. Not attached is success.
    async fn loop_detach(&self, device: &Path) -> Result<()>;
    /// Tells the kernel that a backing file has grown.
    async fn loop_refresh(&self, device: &Path) -> Result<()>;
    /// Probes a device without trusting any cache. An unreadable device is an error, never `Empty`.
    async fn content(&self, device: &Path) -> Result<Content>;
    /// Formats a device. One that is not [`Content::Empty`] is refused, whatever the caller believes (NODE-2).
    async fn make_filesystem(&self, device: &Path, fs_type: &str, options: &[String]) -> Result<()>;
    /// Checks and repairs before use; uncorrected errors (bit 4) are an error.
    async fn check_filesystem(&self, device: &Path, fs_type: &str) -> Result<()>;
    /// Grows the filesystem on `device`, mounted at `target`, to the size of its device. ext4 also grows while
    /// it is not mounted at all; while mounted it wants `CAP_SYS_RESOURCE`, and fails with `EPERM` without.
    async fn grow_filesystem(&self, device: &Path, target: &Path, fs_type: &str) -> Result<()>;
    /// Whether a program can be run, e.g. `mkfs.ext4`.
    fn has_tool(&self, name: &str) -> bool;
}
