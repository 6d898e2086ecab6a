//! mount(2), umount(2), and bind mounts that are read-only from the first moment.

use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::{devices, mountinfo, raw};
use crate::kernel::{KernelError, Mount, Result};

/// How long a busy mount is tried again: 250 ms.
const UNMOUNT_TRIES: u32 = 50;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(5);

/// Words of mount(8) and the flag each sets or, with `false`, clears.
const FLAG_WORDS: [(&str, MountFlags, bool); 27] = [
    ("ro", MountFlags::RDONLY, true),
    ("rw", MountFlags::RDONLY, false),
    ("nosuid", MountFlags::NOSUID, true),
    ("suid", MountFlags::NOSUID, false),
    ("nodev", MountFlags::NODEV, true),
    ("dev", MountFlags::NODEV, false),
    ("noexec", MountFlags::NOEXEC, true),
    ("exec", MountFlags::NOEXEC, false),
    ("sync", MountFlags::SYNCHRONOUS, true),
    ("async", MountFlags::SYNCHRONOUS, false),
    ("dirsync", MountFlags::DIRSYNC, true),
    ("noatime", MountFlags::NOATIME, true),
    ("atime", MountFlags::NOATIME, false),
    ("nodiratime", MountFlags::NODIRATIME, true),
    ("diratime", MountFlags::NODIRATIME, false),
    ("relatime", MountFlags::RELATIME, true),
    ("norelatime", MountFlags::RELATIME, false),
    ("strictatime", MountFlags::STRICTATIME, true),
    ("nostrictatime", MountFlags::STRICTATIME, false),
    ("lazytime", MountFlags::LAZYTIME, true),
    ("nolazytime", MountFlags::LAZYTIME, false),
    ("nosymfollow", MountFlags::NOSYMFOLLOW, true),
    ("symfollow", MountFlags::NOSYMFOLLOW, false),
    ("iversion", I_VERSION, true),
    ("noiversion", I_VERSION, false),
    ("silent", MountFlags::SILENT, true),
    ("loud", MountFlags::SILENT, false),
];
/// `MS_I_VERSION` of linux/mount.h.
const I_VERSION: MountFlags = MountFlags::from_bits_retain(1 << 23);

/// Words for people and boot scripts, which the kernel does not know.
const IGNORED_WORDS: [&str; 7] = ["defaults", "auto", "noauto", "nofail", "_netdev", "user", "nouser"];

/// Of words for programs in user space.
const COMMENTS: [&str; 2] = ["x-", "X-"];

/// Words that ask for another operation than mounting a device.
const REFUSED_WORDS: [&str; 5] = ["bind", "rbind", "remount", "move", "loop"];

/// mount(8) words, split as mount(2) wants them; a later word wins over an earlier one.
fn split_options(words: &[String]) -> std::result::Result<(MountFlags, String), String> {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for word in words.iter().flat_map(|words| words.split(',')).filter(|word| !word.is_empty()) {
        if let Some((_, flag, on)) = FLAG_WORDS.iter().find(|(name, ..)| *name == word) {
            flags.set(*flag, *on);
        } else if REFUSED_WORDS.contains(&word) {
            return Err(format!("option `{word}` does not go with mounting a device"));
        } else if !IGNORED_WORDS.contains(&word) && !COMMENTS.iter().any(|prefix| word.starts_with(prefix)) {
            data.push(word);
        }
    }
    Ok((flags, data.join(",")))
}

pub(super) fn mount(device: &Path, target: &Path, fs_type: &str, options: &[String]) -> Result<()> {
    let what = || format!("mount {fs_type} `{}` at `{}`", device.display(), target.display());
    let (flags, data) = split_options(options).map_err(|why| KernelError::other(what(), why))?;
    let data = CString::new(data).map_err(|_| KernelError::other(what(), "an option holds a zero byte"))?;
    rustix::mount::mount(device, target, fs_type, flags, data.as_c_str())
        .map_err(|errno| KernelError::errno(what(), errno.raw_os_error()))
}

/// The kernel's name of its filesystem in memory.
const MEMORY: &str = "tmpfs";
/// Kernels before 6.4, and those inside a user namespace, do not know it.
const NO_SWAP: &str = "noswap";

/// An empty file takes about a kibibyte of the kernel's memory, which counts for no size.
const BYTES_PER_FILE: u64 = 4096;
/// Files that a small filesystem in memory may have all the same.
const FILES_MIN: u64 = 1024;

pub(super) fn mount_memory(target: &Path, size: Option<u64>) -> Result<()> {
    let bounds = |bytes: u64| {
        let files = (bytes / BYTES_PER_FILE).max(FILES_MIN);
        [format!("size={bytes}"), format!("nr_inodes={files}")]
    };
    let bounds: Vec<String> = size.map(bounds).into_iter().flatten().collect();
    let unswapped = [bounds.as_slice(), &[NO_SWAP.to_owned()]].concat();
    match mount(Path::new(MEMORY), target, MEMORY, &unswapped) {
        Err(error) if error.errno == Some(Errno::INVAL.raw_os_error()) => {
            mount(Path::new(MEMORY), target, MEMORY, &bounds)
        }
        result => result,
    }
}

/// Mounts a filesystem where nobody sees it and takes it off again, so that its log is replayed. A crash takes it
/// off, too.
pub(super) fn mount_unseen(device: &Path, fs_type: &str) -> Result<()> {
    let failed = |errno: Errno| {
        KernelError::errno(
            format!("replay the log of the {fs_type} on `{}`", device.display()),
            errno.raw_os_error(),
        )
    };
    let context = rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    rustix::mount::fsconfig_set_string(&context, "source", device).map_err(failed)?;
    rustix::mount::fsconfig_create(&context).map_err(failed)
}

/// Clones the mount aside, makes it read-only there, and only then puts it in place: nobody ever sees it
/// writable, and a crash leaves either nothing or the whole.
pub(super) fn bind(source: &Path, target: &Path, read_only: bool) -> Result<()> {
    bind_with(source, target, |tree| if read_only { raw::set_read_only(tree, false) } else { Ok(()) })
}

/// A bind without device files and set-uid programs, whatever the mount of its source allows.
pub(super) fn bind_confined(source: &Path, target: &Path, read_only: bool) -> Result<()> {
    let options = raw::MountOptions { read_only, no_devices: true, no_setuid: true };
    bind_with(source, target, |tree| raw::add_options(tree, options, false))
}

fn bind_with(
    source: &Path,
    target: &Path,
    change: impl FnOnce(&OwnedFd) -> std::result::Result<(), nix::errno::Errno>,
) -> Result<()> {
    let failed = |errno: i32| {
        KernelError::errno(format!("bind `{}` to `{}`", source.display(), target.display()), errno)
    };
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(CWD, source, clone).map_err(|e| failed(e.raw_os_error()))?;
    change(&tree).map_err(|e| failed(e as i32))?;
    rustix::mount::move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|e| failed(e.raw_os_error()))
}

/// Takes off the topmost mount. Never lazily: a device must be free when this has succeeded.
///
/// A mount that is held for a moment only is waited for: between fork and exec a child has our open files.
pub(super) fn unmount(target: &Path) -> Result<()> {
    let failed =
        |errno: Errno| KernelError::errno(format!("unmount `{}`", target.display()), errno.raw_os_error());
    for _ in 0..UNMOUNT_TRIES {
        match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) => std::thread::sleep(UNMOUNT_PAUSE),
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(failed(Errno::BUSY))
}

/// Whether a filesystem on this device is mounted where this process can see it.
pub(super) fn is_mounted(device: &Path) -> Result<bool> {
    Ok(place_of(device)?.is_some())
}

/// Where a filesystem on this device is mounted, if this process can see it. A bind mount of the device itself
/// is one of the filesystem that the device stands in.
pub(super) fn place_of(device: &Path) -> Result<Option<Mount>> {
    let number = devices::number(device);
    let number = number.map_err(|e| KernelError::io(format!("look at `{}`", device.display()), &e))?;
    // btrfs counts under a number of its own and names its device only as the source.
    let named = fs::canonicalize(device).map(|path| path.to_string_lossy().into_owned()).ok();
    let on_it = |mount: &Mount| {
        mount.device == number || (mount.fs_type == "btrfs" && Some(&mount.source) == named.as_ref())
    };
    Ok(mountinfo::read()?.into_iter().find(on_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_words_become_flags_and_data() {
        let words =
            |words: &[&str]| split_options(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words(&[]), Ok((MountFlags::empty(), String::new())));
        assert_eq!(words(&["ro", "noatime"]), Ok((MountFlags::RDONLY | MountFlags::NOATIME, String::new())));
        assert_eq!(
            words(&["nosymfollow,silent", "iversion"]),
            Ok((MountFlags::NOSYMFOLLOW | MountFlags::SILENT | I_VERSION, String::new()))
        );
        assert_eq!(words(&["ro", "rw"]), Ok((MountFlags::empty(), String::new())));
        assert_eq!(words(&["noload,nosuid"]), Ok((MountFlags::NOSUID, "noload".into())));
        assert_eq!(
            words(&["defaults", "_netdev", "x-a.b", "X-a.b", "nouuid"]),
            Ok((MountFlags::empty(), "nouuid".into()))
        );
        assert_eq!(
            words(&["data=ordered", "errors=remount-ro"]).unwrap().1,
            "data=ordered,errors=remount-ro"
        );
        assert!(words(&["bind"]).unwrap_err().contains("`bind`"));
    }
}
