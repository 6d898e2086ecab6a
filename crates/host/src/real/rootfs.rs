//! The filesystem a container sees: directories of the host's programs, read-only, on a root and under mounts of its own.
//!
//! The root itself holds nothing of the host's: what is made there later is not seen inside.
//!
//! All of it happens in a mount namespace that nobody else sees, so nothing is ever undone: the namespace goes
//! with the container. The host's own mounts are let go at the end, so that a container keeps only those
//! volumes in use that it was given.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, makedev, mknodat, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind, mount_change,
    open_tree, unmount,
};

use super::bindings::{self, Detached, call};
use super::cgroups::Device;
use super::raw::MountOptions;
use super::skeleton::Hidden;
use super::{masks, message, mountinfo, raw, skeleton};
use crate::containers::ContainerSpec;
use crate::kernel::{KernelError, Result};

/// Parts of the host's root that may be mounts of their own, which an overlay of the root does not show.
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

/// An empty directory beside the root.
const EMPTY: &str = "empty";
/// Containers are given no mount points below these.
const KERNEL_FILESYSTEMS: [&str; 2] = ["/proc", "/sys"];
/// Room in `/dev` for what is put there, and for a few files of careless programs.
const DEV_FILES: usize = 64;

const SAFE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Size of `/tmp`, `/run` and `/dev/shm`, each, where memory has no limit; otherwise it is half of that, because what is
/// written there counts as memory. Workloads with more to write have volumes for it.
const TMPFS_SIZE: u64 = 64 << 20;
/// And how many files there may be: each takes about a kibibyte of the kernel's memory.
const TMPFS_FILES: u64 = 16_384;

const READ_ONLY: MountOptions = MountOptions { read_only: true, no_devices: false, no_setuid: false };
/// Of programs on the host, which may be set-user-id.
const BORROWED: MountOptions = MountOptions { read_only: true, no_devices: true, no_setuid: false };

/// What a container was given of the host, taken in this process's own mount namespace.
pub(super) struct Given {
    bindings: Vec<Detached>,
    pub devices: Vec<Device>,
    /// Where the program leaves its message.
    pub message: Option<File>,
}

/// The first half: everything that the host's paths are needed for. `dir` is any directory that neither init nor the
/// container will need.
pub(super) fn take(dir: &Path, spec: &ContainerSpec) -> Result<Given> {
    // Unmounts on the host still reach this copy of its mounts, but nothing goes back.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    call("detach from the host's mounts", mount_change("/", slave))?;
    let (mut bindings, devices) = bindings::detach(spec)?;
    let message = spec.message_path.as_deref().map(|target| message::create(dir, target)).transpose()?;
    // Last: it lies over what a volume has at its path.
    let message = message.map(|(binding, file)| {
        bindings.push(binding);
        file
    });
    Ok(Given { bindings, devices, message })
}

/// The second half: builds the root. `dir` is any directory that the container will not need.
pub(super) fn build(dir: &Path, spec: &ContainerSpec, given: Given) -> Result<PathBuf> {
    rustix::process::umask(Mode::empty());
    let hidden = hidden(&spec.hidden);
    let (root, own) = lay_root(dir, spec, &hidden, &given.bindings)?;
    let borrowed = borrow_programs(&root)?;
    let mut sealed = mount_own(dir, &root, spec)?;
    sealed.push(own);
    // A program's directory that is a mount of its own lies over the skeleton, and its masks.
    let uncovered = |path: &&PathBuf| borrowed.iter().any(|mount| path.starts_with(mount));
    for path in hidden.iter().map(|hidden| &hidden.path).filter(uncovered) {
        sealed.push(cover(dir, &root, path)?);
    }
    for binding in given.bindings {
        bind(&root, binding)?;
    }
    for mount in sealed {
        raw::set_read_only(mount, false).map_err(|e| KernelError::errno("seal a directory", e as i32))?;
    }
    Ok(root)
}

/// What shall not show, by the host's own names. What does not exist needs no hiding, nor does what the caller names in
/// places that are not shown at all.
fn hidden(more: &[PathBuf]) -> Vec<Hidden> {
    let shown = |path: &PathBuf| masks::SHOWN.iter().any(|dir| path.starts_with(dir));
    let more = more.iter().filter_map(|path| fs::canonicalize(path).ok()).filter(shown);
    let always = masks::DIRECTORIES.iter().chain(&masks::FILES);
    let always = always.filter_map(|path| fs::canonicalize(path).ok());
    always.chain(more).map(|path| Hidden { is_dir: path.is_dir(), path }).collect()
}

/// The root is a tmpfs, with directories of an overlay on it: one without an upper layer, which cannot be written to. Its
/// path is relative, so that no character of it can be mistaken for a separator of overlay options. Returns the root and
/// its mount, which becomes read-only when all is in its place.
fn lay_root(
    dir: &Path,
    spec: &ContainerSpec,
    hidden: &[Hidden],
    bindings: &[Detached],
) -> Result<(PathBuf, OwnedFd)> {
    call("mount a scratch tmpfs", mount("tmpfs", dir, "tmpfs", MountFlags::empty(), c"mode=700"))?;
    let [skeleton, programs, root] = ["skeleton", "programs", "root"].map(|name| dir.join(name));
    for path in [&skeleton, &programs, &root, &dir.join(EMPTY)] {
        fs::create_dir(path).map_err(|e| KernelError::io("create the root", &e))?;
    }
    fs::set_permissions(&skeleton, permissions("/")?).map_err(|e| KernelError::io("create the root", &e))?;
    let shown = skeleton::shown();
    skeleton::fill(&skeleton, (&shown, hidden), spec.working_dir.as_deref(), bindings)
        .map_err(|e| KernelError::io("create mount points", &e))?;
    call("enter the scratch directory", rustix::process::chdir(dir))?;
    let layers = c"lowerdir=skeleton:/";
    call("mount the programs", mount("overlay", &programs, "overlay", MountFlags::NODEV, layers))?;
    call("mount the root", mount_bind(&skeleton, &root))?;
    let own = call("open the root", open_tree(CWD, &root, OpenTreeFlags::OPEN_TREE_CLOEXEC))?;
    let no_devices = MountOptions { no_devices: true, ..MountOptions::default() };
    raw::add_options(&own, no_devices, false).map_err(|e| KernelError::errno("mount the root", e as i32))?;
    for path in shown {
        bind(&root, bindings::part(&own_path(&programs, path), path, BORROWED)?)?;
    }
    Ok((root, own))
}

fn permissions(path: &str) -> Result<fs::Permissions> {
    let metadata = fs::metadata(path).map_err(|e| KernelError::io(format!("look at `{path}`"), &e))?;
    Ok(metadata.permissions())
}

/// Returns what was borrowed. What is mounted below it is left out, as it is of directories of the root.
fn borrow_programs(root: &Path) -> Result<Vec<&'static Path>> {
    let mounted = mountinfo::read()?;
    let is_mount = |path: &&Path| mounted.iter().any(|mount| mount.target == **path);
    let borrowed: Vec<&Path> = PROGRAMS.map(Path::new).into_iter().filter(is_mount).collect();
    for path in &borrowed {
        bind(root, bindings::part_alone(path, path, BORROWED)?)?;
    }
    Ok(borrowed)
}

/// The filesystems every container has to itself. Returns those that become read-only when all is in its place.
fn mount_own(dir: &Path, root: &Path, spec: &ContainerSpec) -> Result<Vec<OwnedFd>> {
    let own = |fs_type: &str, target: &str, flags: MountFlags, data: &str| {
        let path = root.join(target);
        let what = format!("mount {fs_type} at `/{target}`");
        fs::create_dir_all(&path).map_err(|e| KernelError::io(format!("create `/{target}`"), &e))?;
        let data = CString::new(data).map_err(|e| KernelError::other(&what, e.to_string()))?;
        call(&what, mount(fs_type, &path, fs_type, flags, data.as_c_str()))
    };
    let size = spec.resources.memory_max.map_or(TMPFS_SIZE, |limit| limit / 2);
    let bounds = format!("size={size},nr_inodes={TMPFS_FILES}");
    let no_surprises = MountFlags::NOSUID | MountFlags::NODEV;
    own("proc", "proc", SAFE, "")?;
    own("sysfs", "sys", SAFE | MountFlags::RDONLY, "")?;
    let files = DEV_FILES + spec.devices.len() + usize::from(spec.message_path.is_some());
    own("tmpfs", "dev", MountFlags::NOSUID, &format!("mode=755,size=64k,nr_inodes={files}"))?;
    let terminals = MountFlags::NOSUID | MountFlags::NOEXEC;
    own("devpts", "dev/pts", terminals, "newinstance,ptmxmode=0666,mode=0620")?;
    own(
        "tmpfs",
        "dev/shm",
        SAFE,
        &format!("mode=1777,size={},nr_inodes={TMPFS_FILES}", size.min(TMPFS_SIZE)),
    )?;
    own("tmpfs", "tmp", no_surprises, &format!("mode=1777,{bounds}"))?;
    own("tmpfs", "run", no_surprises, &format!("mode=755,{bounds}"))?;
    fill_dev(&root.join("dev")).map_err(|e| KernelError::io("fill `/dev`", &e))?;
    for path in masks::READ_ONLY.map(Path::new).into_iter().filter(|path| path.exists()) {
        bind(root, bindings::part(&own_path(root, path), path, READ_ONLY)?)?;
    }
    let devices = spec.devices.is_empty().then_some(masks::BLOCK_DEVICES);
    let kernel = masks::KERNEL.into_iter().chain(devices).map(Path::new);
    for path in kernel.filter(|path| path.exists()) {
        cover(dir, root, path)?;
    }
    if !spec.security.read_only_root {
        return Ok(Vec::new());
    }
    let open = |target: &str| {
        let mount = open_tree(CWD, root.join(target), OpenTreeFlags::OPEN_TREE_CLOEXEC);
        call(&format!("open `/{target}`"), mount)
    };
    Ok(vec![open("tmp")?, open("run")?])
}

/// Puts something empty over a path of the container. A directory can still be given mount points, until it is sealed.
fn cover(dir: &Path, root: &Path, path: &Path) -> Result<OwnedFd> {
    let target = own_path(root, path);
    let what = format!("hide `{}`", path.display());
    if !target.is_dir() {
        bind(root, bindings::part(&root.join("dev/null"), path, READ_ONLY)?)?;
    } else if KERNEL_FILESYSTEMS.iter().any(|own| path.starts_with(own)) {
        bind(root, bindings::part(&dir.join(EMPTY), path, READ_ONLY)?)?;
    } else {
        call(&what, mount("tmpfs", &target, "tmpfs", SAFE, c"mode=755,size=64k,nr_inodes=1024"))?;
    }
    call(&what, open_tree(CWD, &target, OpenTreeFlags::OPEN_TREE_CLOEXEC))
}

/// A path of the container, before it is the root.
fn own_path(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn fill_dev(dev: &Path) -> io::Result<()> {
    for (name, major, minor) in NODES {
        let device = makedev(major, minor);
        mknodat(CWD, dev.join(name), FileType::CharacterDevice, Mode::from_raw_mode(0o666), device)?;
    }
    LINKS.into_iter().try_for_each(|(name, target)| symlink(target, dev.join(name)))
}

/// Shows a part of the host inside the container, with everything mounted below it.
fn bind(root: &Path, binding: Detached) -> Result<()> {
    let target = mount_point(root, &binding.target, binding.is_dir).map_err(|e| binding.failed(&e))?;
    binding.attach(target)
}

/// Opens a mount point, made where missing. Links inside a volume lead around in the container, never to the
/// host.
fn mount_point(root: &Path, target: &Path, is_dir: bool) -> io::Result<OwnedFd> {
    let root = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let open = |path: &Path| bindings::resolve(&root, path, ResolveFlags::IN_ROOT);
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
pub(super) fn enter(root: &Path) -> Result<()> {
    call("enter the root", rustix::process::chdir(root))?;
    // The old root ends up on top of the new one, from where it is taken off.
    call("change the root", rustix::process::pivot_root(".", "."))?;
    call("let go of the host's root", unmount(".", UnmountFlags::DETACH))?;
    call("enter the new root", rustix::process::chdir("/"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    call("keep mounts private", mount_change("/", private))
}
