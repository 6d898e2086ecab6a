//! Files and directories through the standard library, on threads made for waiting.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{Mode, SeekFrom as Sparse};
use rustix::io::Errno;

use super::replace::{Replacer, sync_parent};
use super::{blocking, changed, extents, group, growing, labels, lock, owned, trees};
use crate::Failpoints;
use crate::disk::{Disk, Extent, GroupGrant, Growing, Kind, Lock, Owner, Space, Walk, is_unfinished};

/// Images and mount points of single files: nobody but the owner.
pub(super) const FILE_MODE: u32 = 0o600;
/// What stat(2) counts in, whatever the filesystem does.
const STAT_BLOCK: u64 = 512;

#[derive(Default)]
pub(super) struct RealDisk {
    replacer: Arc<Replacer>,
    failpoints: Failpoints,
}

impl RealDisk {
    pub fn new(failpoints: Failpoints) -> Self {
        Self { replacer: Arc::new(Replacer::new(failpoints.clone())), failpoints }
    }
}

/// The mode of a directory that does not have its own yet. The umask takes nothing from it, and no program gives it to a
/// directory on purpose.
pub(super) const UNFINISHED_DIR: Mode = Mode::SVTX;

/// The mode comes second, because the umask decides about that of a new directory. A process that dies in between leaves
/// one that the next call finishes.
fn create_dir_all(path: &Path, mode: u32, failpoints: &Failpoints) -> io::Result<()> {
    match begin_dir(path) {
        Ok(()) => {
            failpoints.hit_file("disk.create-dir.created", path);
            fs::set_permissions(path, Permissions::from_mode(mode))?;
            if let Some(parent) = path.parent() {
                finish_dir(parent, mode)?;
            }
            sync_parent(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => finish_dir(path, mode),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().ok_or(error)?;
            create_dir_all(parent, mode, failpoints)?;
            create_dir_all(path, mode, failpoints)
        }
        Err(error) => Err(error),
    }
}

fn begin_dir(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(rustix::fs::CWD, path, UNFINISHED_DIR)?)
}

fn finish_dir(path: &Path, mode: u32) -> io::Result<()> {
    // Empty for a name without a directory before it.
    let found = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => found,
        _ => return Ok(()),
    };
    if Mode::from_raw_mode(found.mode()) != UNFINISHED_DIR {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    sync_parent(path)
}

fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
    sync_parent(path)?;
    Ok(file)
}

fn create_sparse(path: &Path, length: u64) -> io::Result<()> {
    let file = create_file(path)?;
    if file.metadata()?.len() < length {
        file.set_len(length)?;
    }
    file.sync_all()
}

/// A regular file, open for reading; looked at before it is opened, as opening a device may do something.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    regular(fs::metadata(path)?)?;
    File::open(path)
}

fn regular(metadata: Metadata) -> io::Result<Metadata> {
    match metadata {
        metadata if metadata.is_file() => Ok(metadata),
        metadata if metadata.is_dir() => Err(Errno::ISDIR.into()),
        _ => Err(Errno::INVAL.into()),
    }
}

fn canonical(path: &Path) -> io::Result<PathBuf> {
    match (fs::canonicalize(path), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere: what would be created is not where it seems.
            if fs::symlink_metadata(path).is_ok() {
                return Err(error);
            }
            Ok(fs::canonicalize(parent)?.join(name))
        }
        (result, ..) => result,
    }
}

/// Shares blocks if the filesystem can, else copies what is not a hole.
fn copy_sparse(from: &mut File, to: &mut File) -> io::Result<()> {
    if reflink(from, to).is_ok() {
        return Ok(());
    }
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut position = 0;
    while position < length {
        let data = match rustix::fs::seek(&*from, Sparse::Data(position)) {
            Ok(data) => data,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&*from, Sparse::Hole(data))?;
        from.seek(SeekFrom::Start(data))?;
        to.seek(SeekFrom::Start(data))?;
        io::copy(&mut Read::by_ref(from).take(end - data), to)?;
        position = end;
    }
    Ok(())
}

fn reflink(from: &File, to: &File) -> io::Result<()> {
    // What a loop device wrote may still be on its way to the file below it.
    from.sync_all()?;
    rustix::fs::ioctl_ficlone(to, from).map_err(|errno| match errno {
        // What filesystems say that do not know the call, or not between these two files.
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::XDEV | Errno::INVAL => {
            io::ErrorKind::Unsupported.into()
        }
        errno => errno.into(),
    })
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if is_missing(path, &error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Ok(()) => sync_parent(path),
        Err(error) if is_missing(path, &error) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && remove_unfinished(path)? => {
            remove_dir(path)
        }
        Err(error) => Err(error),
    }
}

/// A crash in the middle of a write must not keep its directory from ever being removed. True if any went.
fn remove_unfinished(dir: &Path) -> io::Result<bool> {
    let mut removed = false;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if is_unfinished(&entry.file_name().to_string_lossy()) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
            removed = true;
        }
    }
    Ok(removed)
}

/// A path below something that is no directory is missing, too.
fn is_missing(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::NotADirectory => fs::symlink_metadata(path).is_err(),
        _ => false,
    }
}

fn kind(path: &Path) -> io::Result<Option<Kind>> {
    let file_type = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if is_missing(path, &error) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(match file_type {
        t if t.is_file() => Kind::File,
        t if t.is_dir() => Kind::Dir,
        t if t.is_symlink() => Kind::Symlink,
        t if t.is_socket() => Kind::Socket,
        t if t.is_block_device() => Kind::BlockDevice,
        _ => Kind::Other,
    }))
}

/// The sorted names in a directory that are `wanted`.
fn list(path: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if wanted(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Runs `call` with an owned copy of the path on a thread made for waiting.
async fn with<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.to_path_buf();
    blocking(move || call(path)).await
}

#[async_trait]
impl Disk for RealDisk {
    async fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        with(path, fs::read).await
    }

    async fn open_growing(&self, path: &Path) -> io::Result<Box<dyn Growing>> {
        Ok(Box::new(growing::RealGrowing::open(path).await?))
    }

    async fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let (replacer, content) = (self.replacer.clone(), content.to_vec());
        with(path, move |path| replacer.replace(&path, mode, |file| file.write_all(&content))).await
    }

    async fn create_dir_all(&self, path: &Path, mode: u32) -> io::Result<()> {
        let failpoints = self.failpoints.clone();
        with(path, move |path| create_dir_all(&path, mode, &failpoints)).await
    }

    async fn create_owned_dir(&self, path: &Path, owner: Owner) -> io::Result<()> {
        with(path, move |path| owned::create_dir(&path, owner)).await
    }

    async fn create_file(&self, path: &Path) -> io::Result<()> {
        with(path, |path| create_file(&path).map(drop)).await
    }

    async fn create_sparse(&self, path: &Path, length: u64) -> io::Result<()> {
        with(path, move |path| create_sparse(&path, length)).await
    }

    async fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (replacer, from) = (self.replacer.clone(), from.to_path_buf());
        with(to, move |to| {
            let mut from = open_regular(&from)?;
            replacer.replace(&to, FILE_MODE, |file| copy_sparse(&mut from, file))
        })
        .await
    }

    async fn reflink(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (replacer, from) = (self.replacer.clone(), from.to_path_buf());
        with(to, move |to| {
            let from = open_regular(&from)?;
            replacer.replace(&to, FILE_MODE, |file| reflink(&from, file))
        })
        .await
    }

    async fn length(&self, path: &Path) -> io::Result<u64> {
        with(path, |path| Ok(regular(fs::metadata(path)?)?.len())).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        with(path, |path| remove_file(&path)).await
    }

    async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        with(path, |path| remove_dir(&path)).await
    }

    async fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let failpoints = self.failpoints.clone();
        with(path, move |path| trees::remove(&path, &failpoints)).await
    }

    async fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        let target = target.to_path_buf();
        with(link, move |link| {
            std::os::unix::fs::symlink(target, &link)?;
            sync_parent(&link)
        })
        .await
    }

    async fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        with(path, |path| kind(&path)).await
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        with(path, |path| list(&path, |name| !is_unfinished(name))).await
    }

    async fn unfinished(&self, path: &Path) -> io::Result<Vec<String>> {
        with(path, |path| list(&path, is_unfinished)).await
    }

    async fn space(&self, path: &Path) -> io::Result<Space> {
        with(path, |path| {
            let stat = rustix::fs::statvfs(&path)?;
            Ok(Space {
                total: stat.f_blocks * stat.f_frsize,
                available: stat.f_bavail * stat.f_frsize,
                inodes_total: stat.f_files,
                inodes_available: stat.f_favail,
            })
        })
        .await
    }

    async fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        with(path, |path| canonical(&path)).await
    }

    async fn set_label(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        let (name, value) = (name.to_string(), value.to_vec());
        with(path, move |path| labels::set(&path, &name, &value)).await
    }

    async fn label(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        let name = name.to_string();
        with(path, move |path| labels::get(&path, &name)).await
    }

    async fn extents(&self, path: &Path, from: u64, max: usize) -> io::Result<Vec<Extent>> {
        with(path, move |path| extents::allocated(&path, from, max)).await
    }

    async fn changed(
        &self,
        base: &Path,
        target: &Path,
        block: u64,
        from: u64,
        max: usize,
    ) -> io::Result<Vec<Extent>> {
        let target = target.to_path_buf();
        with(base, move |base| changed::changed(&base, &target, block, from, max)).await
    }

    async fn allocated(&self, path: &Path) -> io::Result<u64> {
        with(path, |path| Ok(open_regular(&path)?.metadata()?.blocks() * STAT_BLOCK)).await
    }

    async fn lock(&self, path: &Path) -> io::Result<Lock> {
        with(path, |path| lock::take(&path)).await
    }

    async fn set_group(&self, dir: &Path, gid: u32) -> io::Result<()> {
        with(dir, move |dir| group::set(&dir, gid)).await
    }

    async fn give_to_group(&self, dir: &Path, grant: GroupGrant, walk: &Walk) -> io::Result<()> {
        let (walk, failpoints) = (walk.clone(), self.failpoints.clone());
        with(dir, move |dir| group::grant(&dir, grant, &walk, &failpoints)).await
    }

    async fn restrict(&self, path: &Path, mode: u32) -> io::Result<bool> {
        with(path, move |path| owned::restrict(&path, mode)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_path_buf();
        with(from, move |from| {
            fs::rename(&from, &to)?;
            sync_parent(&to)?;
            if from.parent() == to.parent() { Ok(()) } else { sync_parent(&from) }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may die between the two system calls; a volume that stays closed is of no use to a container's user.
    #[test]
    fn a_directory_whose_creation_was_cut_short_gets_its_mode() {
        let scratch = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let (volume, parent) = (scratch.path().join("volume"), scratch.path().join("parent"));
        for path in [&volume, &parent] {
            begin_dir(path).unwrap();
        }
        create_dir_all(&volume, 0o777, &Failpoints::default()).unwrap();
        create_dir_all(&parent.join("child"), 0o750, &Failpoints::default()).unwrap();
        assert_eq!((mode(&volume), mode(&parent), mode(&parent.join("child"))), (0o777, 0o750, 0o750));
        // The mode that its owner gave it since is not changed.
        fs::set_permissions(&volume, Permissions::from_mode(0o700)).unwrap();
        create_dir_all(&volume, 0o777, &Failpoints::default()).unwrap();
        assert_eq!(mode(&volume), 0o700);
    }
}
