//! Files and directories. Writes are durable when they return.

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;

/// What stands at a path; symbolic links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    File,
    Dir,
    Symlink,
    Socket,
    BlockDevice,
    Other,
}

/// Free and total bytes of the filesystem that holds a path. A filesystem that makes inodes as it needs them
/// (btrfs) has zero of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub available: u64,
    pub inodes_total: u64,
    pub inodes_available: u64,
}

/// A stretch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    pub length: u64,
}

/// Starts the name of a file that is not complete yet.
const UNFINISHED_PREFIX: &str = ".bowline-new-";

/// The longest name that filesystems take.
pub(crate) const NAME_MAX: usize = 255;

/// The name under which a file is written before it gets its own. Of a name that leaves no room for the prefix, the end
/// is left out: those who then share a name take turns.
pub(crate) fn unfinished_name(name: &OsStr) -> OsString {
    let mut unfinished = OsString::from(UNFINISHED_PREFIX).into_vec();
    unfinished.extend(name.as_bytes().iter().take(NAME_MAX - UNFINISHED_PREFIX.len()));
    OsString::from_vec(unfinished)
}

/// Whether a file of this name was being written when the process ended.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED_PREFIX)
}

/// A lock held until dropped; the end of the process drops it, too.
#[derive(Debug)]
pub struct Lock {
    _held: Box<dyn Any + Send + Sync>,
}

impl Lock {
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

/// Whose a directory is, and what others may do with it; `None` leaves it to the one who creates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mode: u32,
}

/// When a tree is walked to give it to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupChange {
    /// Only if the top directory does not belong to the group yet, or lacks permissions.
    OnRootMismatch,
    Always,
}

/// What the kubelet makes of a volume for a pod with an `fsGroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupGrant {
    pub gid: u32,
    pub change: GroupChange,
    /// The group may read only.
    pub read_only: bool,
}

/// A walk over a tree that takes its time; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    changed: Arc<AtomicU64>,
    cancelled: Arc<AtomicBool>,
}

impl Walk {
    /// Files and directories changed so far.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// Ends the walk at the next entry.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Counts one entry; `Interrupted` when the walk was cancelled.
    pub(crate) fn step(&self) -> io::Result<()> {
        self.changed.fetch_add(1, Ordering::Relaxed);
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

/// A file that somebody else appends to, read from anywhere.
#[async_trait]
pub trait Growing: Send {
    async fn length(&mut self) -> io::Result<u64>;
    /// Up to `max` bytes from `offset`; none at the end.
    async fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>>;
    /// Completes when the file may have grown, or may have been replaced. May complete although nothing happened.
    async fn changed(&mut self) -> io::Result<()>;
    /// Whether another file stands at the path by now.
    async fn replaced(&mut self) -> io::Result<bool>;
}

#[async_trait]
pub trait Disk: Send + Sync {
    async fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Opens a file that somebody else appends to.
    async fn open_growing(&self, path: &Path) -> io::Result<Box<dyn Growing>>;
    /// Replaces the file in one step: temporary file, sync, rename, sync of the directory.
    async fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
    async fn create_dir_all(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Creates a directory in an existing one and gives it this owner; one that is there gets it, too. A link in
    /// its place is an error.
    async fn create_owned_dir(&self, path: &Path, owner: Owner) -> io::Result<()>;
    /// Creates an empty regular file; an existing one is left as it is.
    async fn create_file(&self, path: &Path) -> io::Result<()>;
    /// Creates a sparse file of `length` bytes, or grows an existing one to it. Never shrinks.
    async fn create_sparse(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Copies a regular file in one step, keeping holes; shares blocks where the filesystem can. What a loop
    /// device has written to the source is in the copy. An existing target is replaced; labels stay behind.
    async fn copy(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Like [`Disk::copy`], but all of it at one moment, whoever writes to the source meanwhile. `Unsupported`
    /// where the filesystem cannot share blocks.
    async fn reflink(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Length in bytes of a regular file.
    async fn length(&self, path: &Path) -> io::Result<u64>;
    /// Removes a file, link or socket. Missing is success.
    async fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory. Missing is success; never recursive.
    async fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and everything in it, following no link. Missing is success. A mount there or anywhere
    /// below is `ResourceBusy` and nothing was removed; other failures leave a part that a repeat removes.
    async fn remove_tree(&self, path: &Path) -> io::Result<()>;
    async fn symlink(&self, target: &Path, link: &Path) -> io::Result<()>;
    async fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// Names in a directory, sorted, without unfinished files. A missing directory is empty.
    async fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Names of files in a directory that are being written, or were when a process ended, sorted.
    async fn unfinished(&self, path: &Path) -> io::Result<Vec<String>>;
    async fn space(&self, path: &Path) -> io::Result<Space>;
    /// The path with every symbolic link resolved. A missing last part is kept as it is, so that a place to be
    /// created can be asked for; a link that leads nowhere is `NotFound`.
    async fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
    /// Attaches a small value to a regular file itself (`trusted.` extended attribute), durable on return; it
    /// stays with the file whatever its name becomes.
    async fn set_label(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()>;
    /// The value of [`Disk::set_label`], if the file has one.
    async fn label(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Up to `max` allocated stretches at or after `from`, in order. Holes are not listed.
    async fn extents(&self, path: &Path, from: u64, max: usize) -> io::Result<Vec<Extent>>;
    /// Up to `max` stretches, in units of `block` bytes, in which `target` differs from `base`, beginning with
    /// the unit that holds `from`. A part that only one file has differs unless it reads as zeros. Blocks that
    /// both share on disk are known to be equal without being read.
    async fn changed(
        &self,
        base: &Path,
        target: &Path,
        block: u64,
        from: u64,
        max: usize,
    ) -> io::Result<Vec<Extent>>;
    /// Bytes that a regular file really occupies.
    async fn allocated(&self, path: &Path) -> io::Result<u64>;
    /// Takes an exclusive lock on a file, which is created if missing; `WouldBlock` if another process or
    /// another handle has it.
    async fn lock(&self, path: &Path) -> io::Result<Lock>;
    /// Makes a directory tree belong to a group: group ownership, group read and write as the owner has them,
    /// setgid on directories. Never follows links, never leaves the mount of `dir`. Nothing is done when the
    /// top directory is already so; it is changed last, so that a crash half-way begins again.
    async fn set_group(&self, dir: &Path, gid: u32) -> io::Result<()>;
    /// Gives a directory tree to a group as the kubelet does for `fsGroup`: group read and write (read only if so
    /// granted) on everything, execute and setgid on directories, links themselves but never what they lead to, never
    /// another mount, the top directory last. An entry that cannot be changed is logged and left as it is.
    async fn give_to_group(&self, _dir: &Path, _grant: GroupGrant, _walk: &Walk) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Takes away the permissions of a file or directory beyond `mode`, and says whether there were any. A link is an
    /// error.
    async fn restrict(&self, path: &Path, mode: u32) -> io::Result<bool>;
    /// Renames within one filesystem, replacing the target, durable on return.
    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
}
