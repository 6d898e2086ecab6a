//! What a filesystem says of itself, mounted or not.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use rustix::fs::{Advice, fadvise};

use super::{ext4, mounts, raw};
use crate::kernel::{KernelError, Result};

/// As much as any field asked for here needs.
const SUPERBLOCK: usize = 4096;
/// One directory per mounted xfs.
const LIVE_XFS: &str = "/sys/fs/xfs";
const XFS_MAGIC: &[u8] = b"XFSB";
/// Where the superblock of btrfs is, and where in it the fields are (btrfs on-disk format, "Superblock").
const BTRFS_POSITION: u64 = 64 << 10;
const BTRFS_MAGIC: &[u8] = b"_BHRfS_M";
const BTRFS_MAGIC_AT: usize = 0x40;
const BTRFS_IDENTITY: usize = 0x20;
const BTRFS_DEVICE_ITEM: usize = 0xc9;
const BTRFS_LOG: usize = 0x60;

/// Bytes that the filesystem was made for or last grown to.
pub(super) fn size(device: &Path, fs_type: &str) -> Result<u64> {
    let size = match fs_type {
        "ext2" | "ext3" | "ext4" => ext4::size(device),
        "xfs" => match mounts::place_of(device)? {
            // A mounted xfs writes its superblock when it likes.
            Some(mount) => File::open(mount.target).and_then(|root| Ok(raw::xfs_size(&root)?)),
            // Mounted where this process cannot see it, what it was grown to may be in its log only.
            None if is_live_xfs(device) => Err(Errno::EBUSY.into()),
            None => xfs_size(device),
        },
        "btrfs" => btrfs_size(device),
        _ => Err(Errno::EOPNOTSUPP.into()),
    };
    size.map_err(|e| failed(device, fs_type, &e))
}

/// Whether the kernel has the xfs on a device mounted, in whichever mount namespace. It says so until all is written.
fn is_live_xfs(device: &Path) -> bool {
    device.file_name().is_some_and(|name| Path::new(LIVE_XFS).join(name).exists())
}

/// Block size and number of blocks, both big-endian.
fn xfs_size(device: &Path) -> io::Result<u64> {
    let superblock = read_superblock(device, 0, XFS_MAGIC, 0)?;
    let block = u64::from_be_bytes(word(&superblock, 0)) & u64::from(u32::MAX);
    block.checked_mul(u64::from_be_bytes(word(&superblock, 8))).ok_or_else(|| Errno::EINVAL.into())
}

/// The device's own share: `total_bytes` of the device item within the superblock.
fn btrfs_size(device: &Path) -> io::Result<u64> {
    let superblock = read_superblock(device, BTRFS_POSITION, BTRFS_MAGIC, BTRFS_MAGIC_AT)?;
    Ok(u64::from_le_bytes(word(&superblock, BTRFS_DEVICE_ITEM + 8)))
}

/// Whether a btrfs has writes that are in its log only: it was not unmounted in an orderly way.
pub(super) fn btrfs_has_log(device: &Path) -> Result<bool> {
    let superblock = read_superblock(device, BTRFS_POSITION, BTRFS_MAGIC, BTRFS_MAGIC_AT);
    let superblock = superblock.map_err(|e| failed(device, "btrfs", &e))?;
    Ok(u64::from_le_bytes(word(&superblock, BTRFS_LOG)) != 0)
}

/// Past what was read earlier: a mounted filesystem does not have to write through the cache of its device.
fn read_superblock(device: &Path, position: u64, magic: &[u8], at: usize) -> io::Result<[u8; SUPERBLOCK]> {
    let file = File::open(device)?;
    fadvise(&file, position, None, Advice::DontNeed)?;
    let mut superblock = [0; SUPERBLOCK];
    file.read_exact_at(&mut superblock, position)?;
    if superblock[at..].starts_with(magic) { Ok(superblock) } else { Err(Errno::EINVAL.into()) }
}

fn word<const N: usize>(superblock: &[u8; SUPERBLOCK], at: usize) -> [u8; N] {
    superblock[at..].first_chunk().copied().unwrap_or([0; N])
}

/// Errors that the kernel has noted.
pub(super) fn errors(device: &Path, fs_type: &str) -> Result<u64> {
    let errors = match fs_type {
        "ext2" | "ext3" | "ext4" => ext4::errors(device),
        "xfs" => match mounts::place_of(device)? {
            Some(mount) => Ok(is_shut_down(&mount.target)),
            None => Ok(0),
        },
        "btrfs" => btrfs_errors(device),
        _ => Err(Errno::EOPNOTSUPP.into()),
    };
    errors.map_err(|e| failed(device, fs_type, &e))
}

/// After a fatal error xfs answers every question with an input/output error, until it is mounted again.
fn is_shut_down(target: &Path) -> u64 {
    let answer = fs::metadata(target).map_err(|error| error.raw_os_error());
    u64::from(answer.is_err_and(|errno| errno == Some(Errno::EIO as i32)))
}

/// The sum of what a mounted btrfs counts for this device; one that is not mounted has no counters.
fn btrfs_errors(device: &Path) -> io::Result<u64> {
    let superblock = read_superblock(device, BTRFS_POSITION, BTRFS_MAGIC, BTRFS_MAGIC_AT)?;
    let identity = spell(&word(&superblock, BTRFS_IDENTITY));
    let number = u64::from_le_bytes(word(&superblock, BTRFS_DEVICE_ITEM));
    let stats = format!("/sys/fs/btrfs/{identity}/devinfo/{number}/error_stats");
    let stats = match fs::read_to_string(stats) {
        Ok(stats) => stats,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    // `write_errs 0`
    Ok(stats.lines().filter_map(|line| line.split_once(' ')?.1.trim().parse::<u64>().ok()).sum())
}

/// A UUID in its usual spelling.
fn spell(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| hex.get(part).unwrap_or_default().to_string()).join("-")
}

fn failed(device: &Path, fs_type: &str, error: &io::Error) -> KernelError {
    KernelError::io(format!("look at the {fs_type} on `{}`", device.display()), error)
}
