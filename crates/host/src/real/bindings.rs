//! Parts of the host that a container will see, taken while the host's paths still mean something.
//!
//! Each is found once and from then on held by a descriptor: what is checked is what is mounted, also when a workload
//! changes the volume in between.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::libc;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, major, minor, mkdirat, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::cgroups::Device;
use super::raw::{self, MountOptions};
use crate::containers::{Binding, ContainerSpec};
use crate::kernel::{KernelError, Result};

const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Links may lead around inside the volume. They never lead out of it, nor through `/proc` to another file.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
const PERMISSIONS: u32 = 0o7777;

/// The kernel gives up on `..` when anything is renamed or mounted meanwhile, anywhere. So often it is asked again.
const RESOLVE_TRIES: u32 = 256;

/// Looks for a file below a directory, with the given restriction.
pub(super) fn resolve(dir: impl AsFd, path: &Path, how: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    let look = || openat2(dir.as_fd(), path, LOOK, Mode::empty(), how);
    let again = |result: &rustix::io::Result<OwnedFd>| matches!(result, Err(Errno::AGAIN));
    (1..RESOLVE_TRIES).map(|_| look()).find(|result| !again(result)).unwrap_or_else(look)
}

/// A mount that has no place yet.
pub(super) struct Detached {
    tree: OwnedFd,
    pub is_dir: bool,
    pub target: PathBuf,
    /// For messages.
    what: String,
}

impl Detached {
    /// Puts it in its place.
    pub fn attach(self, to: impl AsFd) -> Result<()> {
        let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        call(&self.what, move_mount(&self.tree, "", to, "", both))
    }

    pub fn failed(&self, error: &io::Error) -> KernelError {
        KernelError::io(&self.what, error)
    }
}

/// Everything that a container was given, and the numbers of its devices.
pub(super) fn detach(spec: &ContainerSpec) -> Result<(Vec<Detached>, Vec<Device>)> {
    let mut bindings = spec.mounts.iter().map(volume).collect::<Result<Vec<_>>>()?;
    let mut devices = Vec::new();
    for binding in &spec.devices {
        let (node, device) = device(binding)?;
        bindings.push(node);
        devices.push(device);
    }
    // Those further up come first, or they would hide the others.
    bindings.sort_by_key(|binding| binding.target.components().count());
    Ok((bindings, devices))
}

/// A volume: no node in it is a device, and no program in it gives anyone more than they have.
fn volume(binding: &Binding) -> Result<Detached> {
    let what = what(binding);
    let source = call(&what, openat(CWD, &binding.source, LOOK, Mode::empty()))?;
    let source = match &binding.sub_path {
        Some(path) => below(&source, path).map_err(|e| {
            let what = format!("open sub-path `{}` of `{}`", path.display(), binding.source.display());
            KernelError::io(what, &e)
        })?,
        None => source,
    };
    let options = MountOptions { read_only: binding.read_only, no_devices: true, no_setuid: true };
    detached(what, &source, &binding.target, options, true)
}

/// A single node, which has to be a block device. It is on a read-only mount, also for who may write to the device: the
/// node is the host's, and its mode and owner would stay when the number of a loop device goes on to the next volume.
fn device(binding: &Binding) -> Result<(Detached, Device)> {
    let what = what(binding);
    let node = call(&what, openat(CWD, &binding.source, LOOK, Mode::empty()))?;
    let stat = call(&what, fstat(&node))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Err(KernelError::errno(what, libc::ENOTBLK));
    }
    let (major, minor) = (major(stat.st_rdev), minor(stat.st_rdev));
    let device = Device { major, minor, read_only: binding.read_only };
    let options = MountOptions { read_only: true, no_devices: false, no_setuid: true };
    Ok((detached(what, &node, &binding.target, options, false)?, device))
}

fn what(binding: &Binding) -> String {
    format!("mount `{}` at `{}`", binding.source.display(), binding.target.display())
}

/// A part of the machine that is no volume, as it is.
pub(super) fn part(source: &Path, target: &Path, options: MountOptions) -> Result<Detached> {
    of_machine(source, target, options, true)
}

/// The same, without what is mounted below it.
pub(super) fn part_alone(source: &Path, target: &Path, options: MountOptions) -> Result<Detached> {
    of_machine(source, target, options, false)
}

fn of_machine(source: &Path, target: &Path, options: MountOptions, recursive: bool) -> Result<Detached> {
    let what = format!("mount `{}` at `{}`", source.display(), target.display());
    let file = call(&what, openat(CWD, source, LOOK, Mode::empty()))?;
    detached(what, &file, target, options, recursive)
}

fn detached(
    what: String,
    source: &OwnedFd,
    target: &Path,
    options: MountOptions,
    recursive: bool,
) -> Result<Detached> {
    let mut flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
    let tree = call(&what, open_tree(source, "", flags))?;
    raw::add_options(&tree, options, recursive).map_err(|e| KernelError::errno(&what, e as i32))?;
    let stat = call(&what, fstat(&tree))?;
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(Detached { tree, is_dir, target: target.to_path_buf(), what })
}

/// A file or directory inside a volume. What is missing is made as a directory, with the mode of the volume's own.
fn below(volume: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut missing = Vec::new();
    let mut existing = path;
    let mut here = loop {
        let name = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
        match (resolve(volume, name, INSIDE), existing.parent(), existing.file_name()) {
            (Ok(file), ..) => break file,
            (Err(Errno::NOENT), Some(parent), Some(name)) => {
                missing.push(name);
                existing = parent;
            }
            (Err(Errno::XDEV), ..) => {
                return Err(io::Error::other("a link leads out of the volume"));
            }
            (Err(errno), ..) => return Err(errno.into()),
        }
    };
    let mode = fstat(volume)?.st_mode & PERMISSIONS;
    while let Some(name) = missing.pop() {
        here = make_dir(here.as_fd(), Path::new(name), mode)?;
    }
    Ok(here)
}

/// No link is followed: one that leads to nothing stands where a directory is missing.
fn make_dir(parent: BorrowedFd<'_>, name: &Path, mode: u32) -> io::Result<OwnedFd> {
    let made = match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno.into()),
    };
    let dir = openat(parent, name, LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    if made {
        // A descriptor for looking only has its mode changed through its name in proc.
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(dir)
}

pub(super) fn call<T>(what: &str, result: rustix::io::Result<T>) -> Result<T> {
    result.map_err(|errno| KernelError::errno(what, errno.raw_os_error()))
}
