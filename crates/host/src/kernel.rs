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
    /// Whether the filesystem itself refuses writes, at every mount of it: asked for when it was mounted first, or
    /// its own answer to an error.
    pub filesystem_read_only: bool,
}

/// Filesystems that hold device files.
pub const DEVICE_FILESYSTEMS: [&str; 2] = ["devtmpfs", "tmpfs"];

impl Mount {
    /// Whether this is a bind mount of a device's file.
    pub fn shows_device(&self, device: &Path) -> bool {
        let named = self.root.file_name().is_some_and(|name| Some(name) == device.file_name());
        named && DEVICE_FILESYSTEMS.contains(&self.fs_type.as_str())
    }

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

/// One attached loop device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice {
    pub device: PathBuf,
    /// The path of the image; the one it had if `deleted`.
    pub image: PathBuf,
    pub deleted: bool,
    pub read_only: bool,
}

/// How a block device treats requests; `None` leaves a setting as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    pub discard: Option<bool>,
    pub read_ahead_kib: Option<u32>,
}

/// Requests that change a block device.
///
/// Two looks with nothing under way and the same count mean that nobody wrote from the first to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writes {
    /// Ended so far.
    pub done: u64,
    pub under_way: u64,
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

    /// What both kernels answer to discarding that is turned on again.
    pub(crate) fn discard_stays_off(device: &Path) -> Self {
        Self {
            what: format!("turn discarding on again on `{}`", device.display()),
            why: "the kernel allows it only when the image is detached and attached again".into(),
            errno: Some(nix::libc::EINVAL),
        }
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
    /// The topmost mount at exactly this path; cheap however long the table is (Linux 6.13), or at least when there
    /// is none.
    async fn mount_at(&self, target: &Path) -> Result<Option<Mount>>;
    /// Mounts a device. `options` are mount(8) words, both flags and filesystem data.
    async fn mount(&self, device: &Path, target: &Path, fs_type: &str, options: &[String]) -> Result<()>;
    /// Mounts a filesystem that lives in memory and holds at most `size` bytes; without a size, as much as the kernel
    /// thinks fit. Its files are never swapped out where the kernel can promise that (Linux 6.4).
    async fn mount_memory(&self, target: &Path, size: Option<u64>) -> Result<()>;
    /// Bind-mounts a directory, file or device; read-only in the same step for observers.
    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<()>;
    /// Bind-mounts a directory `nodev,nosuid`, whatever its own mount allows, in one step like [`Kernel::bind`].
    async fn bind_confined(&self, source: &Path, target: &Path, read_only: bool) -> Result<()>;
    /// Unmounts the topmost mount at `target`. Not mounted is success.
    async fn unmount(&self, target: &Path) -> Result<()>;
    /// Attaches a loop device to an image, or returns the one that already has it, and keeps it open like
    /// [`Kernel::loop_hold`]. A free device whose file is bound somewhere is not taken: users of another image that it
    /// had before would see this one.
    async fn loop_attach(&self, image: &Path, read_only: bool) -> Result<PathBuf>;
    /// The loop device that has this image as backing file, if any. An existing image is compared by device and
    /// inode, not only by its path.
    async fn loop_of(&self, image: &Path) -> Result<Option<PathBuf>>;
    /// The device of [`Kernel::loop_of`], kept open from now on until it is detached here. While it is open, the
    /// kernel only notes a request to clear it (`LOOP_CLR_FD`, `losetup -d`); this call withdraws such a request.
    async fn loop_hold(&self, image: &Path) -> Result<Option<PathBuf>>;
    /// Detaches a loop device, whatever image it has. Not attached is success.
    async fn loop_detach(&self, device: &Path) -> Result<()>;
    /// Detaches a loop device from this image. One that has another image by now is left alone, which is success.
    async fn loop_release(&self, device: &Path, image: &Path) -> Result<()>;
    /// Tells the kernel that a backing file has grown.
    async fn loop_refresh(&self, device: &Path) -> Result<()>;
    /// Probes a device without trusting any cache. An unreadable device is an error, never `Empty`.
    async fn content(&self, device: &Path) -> Result<Content>;
    /// Formats a device. One that is not [`Content::Empty`] is refused, whatever the caller believes (NODE-2).
    async fn make_filesystem(&self, device: &Path, fs_type: &str, options: &[String]) -> Result<()>;
    /// Checks and repairs before use. Errors left uncorrected are `EUCLEAN`, and a check that could not be done is
    /// an error, too, unless its program is missing. xfs and btrfs repair themselves when mounted.
    async fn check_filesystem(&self, device: &Path, fs_type: &str) -> Result<()>;
    /// Grows the filesystem on `device`, mounted at `target`, to the size of its device. ext4 also grows while
    /// it is not mounted at all; while mounted it wants `CAP_SYS_RESOURCE`, and fails with `EPERM` without.
    async fn grow_filesystem(&self, device: &Path, target: &Path, fs_type: &str) -> Result<()>;
    /// Stops writes to the filesystem mounted at `target`, with everything written out. Already frozen is
    /// `EBUSY`; a path where nothing is mounted is `EINVAL`, never the filesystem that holds it. A frozen
    /// filesystem can be unmounted and stays frozen: its device is not free before it is mounted and thawed.
    async fn freeze(&self, target: &Path) -> Result<()>;
    /// Lets writes go on. Not frozen, or nothing mounted there, is success.
    async fn thaw(&self, target: &Path) -> Result<()>;
    /// Writes out what the kernel holds for a block device.
    async fn flush(&self, device: &Path) -> Result<()>;
    /// What was and is being written to a block device, by whomever.
    async fn writes(&self, device: &Path) -> Result<Writes>;
    /// Bytes of a block device.
    async fn device_size(&self, device: &Path) -> Result<u64>;
    /// Bytes that the filesystem on `device` was made for or last grown to, mounted or not. May stay a little
    /// below the size of the device: filesystems count in blocks of their own. `EBUSY` for one that another mount
    /// namespace still has mounted, where its size on disk may be outdated (xfs).
    async fn filesystem_size(&self, device: &Path, fs_type: &str) -> Result<u64>;
    /// Every attached loop device.
    async fn loops(&self) -> Result<Vec<LoopDevice>>;
    /// Sets the queue of a block device. Discarding that was turned off comes back only with a new attachment:
    /// until then `Some(true)` is `EINVAL` (Linux 6.9 and later). A new attachment begins with it on.
    async fn set_queue(&self, device: &Path, queue: Queue) -> Result<()>;
    /// Gives the unmounted filesystem an identity of its own, where two with the same cannot be mounted at once:
    /// btrfs. Nothing to do for ext4; xfs is mounted with `nouuid` instead.
    async fn renew_identity(&self, device: &Path, fs_type: &str) -> Result<()>;
    /// Errors that the kernel has noted for the filesystem on a device; a shut down xfs has one.
    async fn filesystem_errors(&self, device: &Path, fs_type: &str) -> Result<u64>;
    /// Whether a program can be run, e.g. `mkfs.ext4`.
    fn has_tool(&self, name: &str) -> bool;
}
