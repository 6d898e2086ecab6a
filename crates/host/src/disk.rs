//! Files and directories. Writes are durable when they return.

use std::io;
use std::path::Path;

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

/// Free and total bytes of the filesystem that holds a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub available: u64,
}

#[async_trait]
pub trait Disk: Send + Sync {
    async fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Replaces the file in one step: temporary file, sync, rename, sync of the directory.
    async fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
    async fn create_dir_all(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Creates an empty regular file; an existing one is left as it is.
    async fn create_file(&self, path: &Path) -> io::Result<()>;
    /// Creates a sparse file of `length` bytes, or grows an existing one to it. Never shrinks.
    async fn create_sparse(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Copies a regular file in one step, keeping holes; shares blocks where the filesystem can.
    /// An existing target is replaced.
    async fn copy(&self, from: &Path, to: &Path) -> io::Result<()>;
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
    /// Names in a directory, sorted. A missing directory is empty.
    async fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    async fn space(&self, path: &Path) -> io::Result<Space>;
}
