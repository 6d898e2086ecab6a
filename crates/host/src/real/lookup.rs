//! Finding one mount without reading the whole table, which a node with thousands of pods has long.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::libc;
use rustix::fs::{AtFlags, CWD, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::mountinfo;
use super::raw::{self, RawMount};
use crate::kernel::{Mount, Result};

/// Asks for the number of the mount that is never used again (linux/stat.h, from Linux 6.8 on).
const UNIQUE_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Options of a mount in the words and the order of the mount table.
const OPTION_WORDS: [(u64, u64, &str); 10] = [
    (libc::MOUNT_ATTR_RDONLY, 0, "rw"),
    (libc::MOUNT_ATTR_RDONLY, libc::MOUNT_ATTR_RDONLY, "ro"),
    (libc::MOUNT_ATTR_NOSUID, libc::MOUNT_ATTR_NOSUID, "nosuid"),
    (libc::MOUNT_ATTR_NODEV, libc::MOUNT_ATTR_NODEV, "nodev"),
    (libc::MOUNT_ATTR_NOEXEC, libc::MOUNT_ATTR_NOEXEC, "noexec"),
    (libc::MOUNT_ATTR__ATIME, libc::MOUNT_ATTR_NOATIME, "noatime"),
    (libc::MOUNT_ATTR_NODIRATIME, libc::MOUNT_ATTR_NODIRATIME, "nodiratime"),
    (libc::MOUNT_ATTR__ATIME, libc::MOUNT_ATTR_RELATIME, "relatime"),
    (libc::MOUNT_ATTR_NOSYMFOLLOW, libc::MOUNT_ATTR_NOSYMFOLLOW, "nosymfollow"),
    (libc::MOUNT_ATTR_IDMAP, libc::MOUNT_ATTR_IDMAP, "idmapped"),
];

/// The topmost mount at exactly this path.
pub(super) fn mount_at(target: &Path) -> Result<Option<Mount>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(CWD, target, flags, StatxFlags::TYPE | UNIQUE_ID) {
        Ok(stat) => {
            let known = stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
            if known && !stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
                return Ok(None);
            }
            if let Some(mount) = by_number(&stat) {
                return Ok(Some(mount).filter(|mount| mount.target == target));
            }
        }
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        // A broken mount fails its stat, and is in the table all the same.
        Err(_) => {}
    }
    from_table(target)
}

fn from_table(target: &Path) -> Result<Option<Mount>> {
    Ok(mountinfo::read()?.into_iter().rev().find(|mount| mount.target == target))
}

/// The mount that holds what was looked at; nothing where the kernel cannot be asked for it, for whatever reason.
fn by_number(stat: &Statx) -> Option<Mount> {
    if stat.stx_mask & UNIQUE_ID.bits() == 0 {
        return None;
    }
    let RawMount { device: (major, minor), attributes, root, point, fs_type, source, filesystem_read_only } =
        raw::stat_mount(stat.stx_mnt_id).ok()??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
    let words = OPTION_WORDS.iter().filter(|(mask, value, _)| attributes & mask == *value);
    Some(Mount {
        device: format!("{major}:{minor}"),
        root: path(root),
        target: path(point),
        options: words.map(|(_, _, word)| word.to_string()).collect(),
        fs_type: text(fs_type),
        source: text(source),
        filesystem_read_only,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever this machine has mounted, hidden mounts excepted.
    #[test]
    fn both_ways_agree() {
        let mut compared = 0;
        for mount in mountinfo::read().unwrap() {
            let target = &mount.target;
            let table = from_table(target).unwrap();
            let found = mount_at(target).unwrap();
            // Others mount and unmount at the same time.
            if found.is_some() && table == from_table(target).unwrap() {
                assert_eq!(found, table, "{}", target.display());
                compared += 1;
            }
        }
        assert!(compared > 3, "{compared}");
    }

    #[test]
    fn this_kernel_is_asked_directly() {
        let stat = rustix::fs::statx(CWD, "/proc", AtFlags::empty(), StatxFlags::TYPE | UNIQUE_ID).unwrap();
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
        let has_it = (numbers.next(), numbers.next()) >= (Some(6), Some(13));
        assert_eq!(by_number(&stat).is_some(), has_it, "{release}");
    }
}
