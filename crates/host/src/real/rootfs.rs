//! The filesystem a container sees: the host's root, read-only, under mounts of its own.
//!
//! All of it happens in a mount namespace that nobody else sees, so nothing is ever undone: the namespace goes
//! with the container. The host's own mounts are let go at the end, so that a container keeps only those
//! volumes in use that it was given.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, makedev, mknodat, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};

use super::{mountinfo, raw, skeleton};
use crate::containers::{Binding, ContainerSpec};
use crate::kernel::{KernelError, Result};

/// Parts of the host's root that may be mounts of their own, which the root alone does not show.
const PROGRAMS: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt",
    "/nix",
    "/etc",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
];

/// Nodes of `/dev`: name, major, minor.
const NODES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Switches of the whole machine, which a container may read only, or not even that.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
const UNREADABLE: [&str; 4] = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"];

const SAFE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Builds the root in this process's own mount namespace and moves into it. `dir` is any directory that the
/// container will not need.
pub(super) fn build(dir: &Path, spec: &ContainerSpec) -> Result<()> {
    // Unmounts on the host still reach this copy of its mounts, but nothing goes back.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    call("detach from the host's mounts", mount_change("/", slave))?;
    rustix::process::umask(Mode::empty());
    let root = lay_root(dir, spec)?;
    borrow_programs(&root)?;
    mount_own(&root)?;
    let masks = mask(&root, &spec.hidden)?;
    let mut bindings: Vec<&Binding> = spec.mounts.iter().chain(&spec.devices).collect();
    bindings.sort_by_key(|binding| binding.target.components().count());
    for binding in bindings {
        bind(&root, binding)?;
    }
    for mask in masks {
        raw::set_read_only(mask, false)
            .map_err(|e| KernelError::errno("seal a hidden directory", e as i32))?;
    }
    enter(&root)
}

/// An overlay without an upper layer cannot be written to. Its path is relative, so that no character of it can
/// be mistaken for a separator of overlay options.
fn lay_root(dir: &Path, spec: &ContainerSpec) -> Result<PathBuf> {
    call("mount a scratch tmpfs", mount("tmpfs", dir, "tmpfs", MountFlags::empty(), c"mode=700"))?;
    let (skeleton, root) = (dir.join("skeleton"), dir.join("root"));
    for path in [&skeleton, &root] {
        fs::create_dir(path).map_err(|e| KernelError::io("create the root", &e))?;
    }
    fs::set_permissions(&skeleton, permissions("/")?).map_err(|e| KernelError::io("create the root", &e))?;
    skeleton::fill(&skeleton, spec).map_err(|e| KernelError::io("create mount points", &e))?;
    call("enter the scratch directory", rustix::process::chdir(dir))?;
    call("mount the root", mount("overlay", &root, "overlay", MountFlags::NODEV, c"lowerdir=skeleton:/"))?;
    Ok(root)
}

fn permissions(path: &str) -> Result<fs::Permissions> {
    let metadata = fs::metadata(path).map_err(|e| KernelError::io(format!("look at `{path}`"), &e))?;
    Ok(metadata.permissions())
}

fn borrow_programs(root: &Path) -> Result<()> {
    let mounted = mountinfo::read()?;
    for path in PROGRAMS.map(Path::new) {
        if mounted.iter().any(|mount| mount.target == path) {
            bind(root, &Binding::new(path, path).read_only(true))?;
        }
    }
    Ok(())
}

/// The filesystems every container has to itself.
fn mount_own(root: &Path) -> Result<()> {
    let own = |fs_type: &str, target: &str, flags: MountFlags, data: &std::ffi::CStr| {
        let path = root.join(target);
        let made = fs::create_dir_all(&path).map_err(|e| KernelError::io(format!("create `/{target}`"), &e));
        made.and_then(|()| {
            call(&format!("mount {fs_type} at `/{target}`"), mount(fs_type, &path, fs_type, flags, data))
        })
    };
    own("proc", "proc", SAFE, c"")?;
    own("sysfs", "sys", SAFE | MountFlags::RDONLY, c"")?;
    own("tmpfs", "dev", MountFlags::NOSUID, c"mode=755,size=64k")?;
    own(
        "devpts",
        "dev/pts",
        MountFlags::NOSUID | MountFlags::NOEXEC,
        c"newinstance,ptmxmode=0666,mode=0620",
    )?;
    own("tmpfs", "dev/shm", SAFE, c"mode=1777,size=64m")?;
    own("tmpfs", "tmp", MountFlags::NOSUID | MountFlags::NODEV, c"mode=1777")?;
    own("tmpfs", "run", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755")?;
    fill_dev(&root.join("dev")).map_err(|e| KernelError::io("fill `/dev`", &e))?;
    for path in READ_ONLY.into_iter().filter(|path| Path::new(path).exists()) {
        bind(root, &Binding::new(own_path(root, path), path).read_only(true))?;
    }
    for path in UNREADABLE.into_iter().filter(|path| Path::new(path).exists()) {
        bind(root, &Binding::new("/dev/null", path).read_only(true))?;
    }
    Ok(())
}

/// The container's own `/proc` entry, before it is the root.
fn own_path(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn fill_dev(dev: &Path) -> io::Result<()> {
    for (name, major, minor) in NODES {
        let device = makedev(major, minor);
        mknodat(CWD, dev.join(name), FileType::CharacterDevice, Mode::from_raw_mode(0o666), device)?;
    }
    LINKS.into_iter().try_for_each(|(name, target)| symlink(target, dev.join(name)))
}

/// Puts an empty filesystem over each directory; sealed later, when mount points inside have been made.
fn mask(root: &Path, hidden: &[PathBuf]) -> Result<Vec<OwnedFd>> {
    let mut masks = Vec::new();
    for path in hidden {
        // What does not exist needs no hiding.
        let Ok(real) = fs::canonicalize(path) else { continue };
        let target = root.join(real.strip_prefix("/").unwrap_or(&real));
        if !target.is_dir() {
            continue;
        }
        let what = format!("hide `{}`", path.display());
        call(&what, mount("tmpfs", &target, "tmpfs", SAFE, c"mode=755,size=64k"))?;
        masks.push(call(&what, open_tree(CWD, &target, OpenTreeFlags::OPEN_TREE_CLOEXEC))?);
    }
    Ok(masks)
}

/// Shows a part of the host inside the container, with everything mounted below it.
fn bind(root: &Path, binding: &Binding) -> Result<()> {
    let what = format!("mount `{}` at `{}`", binding.source.display(), binding.target.display());
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = call(&what, open_tree(CWD, &binding.source, clone))?;
    if binding.read_only {
        raw::set_read_only(&tree, true).map_err(|e| KernelError::errno(&what, e as i32))?;
    }
    let target = mount_point(root, &binding.target, binding.source.is_dir());
    let target = target.map_err(|e| KernelError::io(&what, &e))?;
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    call(&what, move_mount(&tree, "", &target, "", both))
}

/// Opens a mount point, made where missing. Links inside a volume lead around in the container, never to the
/// host.
fn mount_point(root: &Path, target: &Path, is_dir: bool) -> io::Result<OwnedFd> {
    let root = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let open = |path: &Path| {
        openat2(&root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
    };
    let mut missing = Vec::new();
    let mut existing = target;
    let mut here = loop {
        match (open(existing), existing.parent(), existing.file_name()) {
            (Ok(fd), ..) => break fd,
            (Err(Errno::NOENT), Some(parent), Some(name)) => {
                missing.push(name);
                existing = parent;
            }
            (Err(errno), ..) => return Err(errno.into()),
        }
    };
    while let Some(name) = missing.pop() {
        here = make(here.as_fd(), Path::new(name), is_dir || !missing.is_empty())?;
    }
    Ok(here)
}

fn make(parent: impl AsFd, name: &Path, is_dir: bool) -> io::Result<OwnedFd> {
    let parent = parent.as_fd();
    if is_dir {
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(openat(parent, name, flags, Mode::from_raw_mode(0o644))?);
    }
    Ok(openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes the new root the root, and lets the host's go.
fn enter(root: &Path) -> Result<()> {
    call("enter the root", rustix::process::chdir(root))?;
    // The old root ends up on top of the new one, from where it is taken off.
    call("change the root", rustix::process::pivot_root(".", "."))?;
    call("let go of the host's root", unmount(".", UnmountFlags::DETACH))?;
    call("enter the new root", rustix::process::chdir("/"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    call("keep mounts private", mount_change("/", private))
}

fn call<T>(what: &str, result: rustix::io::Result<T>) -> Result<T> {
    result.map_err(|errno| KernelError::errno(what, errno.raw_os_error()))
}
