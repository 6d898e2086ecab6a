//! The ext2/3/4 superblock, as far as it says whether a check is due (ext4 disk layout, "The Super Block").

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const POSITION: u64 = 1024;
const LENGTH: usize = 1024;

const MAGIC: u16 = 0xef53;
const STATE_VALID: u16 = 1;
const STATE_ERROR: u16 = 2;
/// The journal was not emptied: the filesystem was in use when its machine, or its device, went away.
const NEEDS_RECOVERY: u32 = 4;

/// Whether fsck would look at the superblock and leave again: cleanly unmounted, no errors seen, and no check
/// due by count or by time. Starting a program to hear that costs more than everything else on the way.
pub(super) fn is_clean(device: &Path) -> io::Result<bool> {
    let mut superblock = [0; LENGTH];
    File::open(device)?.read_exact_at(&mut superblock, POSITION)?;
    Ok(says_clean(&superblock))
}

fn says_clean(superblock: &[u8; LENGTH]) -> bool {
    let short = |at: usize| u16::from_le_bytes([superblock[at], superblock[at + 1]]);
    let long = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
    let (mounts, mounts_max) = (short(0x34), short(0x36).cast_signed());
    let (state, check_interval, incompatible) = (short(0x3a), long(0x44), long(0x60));
    let (orphans, errors) = (long(0xe8), long(0x194));
    short(0x38) == MAGIC
        && state & (STATE_VALID | STATE_ERROR) == STATE_VALID
        && incompatible & NEEDS_RECOVERY == 0
        && (mounts_max <= 0 || mounts < mounts_max.cast_unsigned())
        && check_interval == 0
        && orphans == 0
        && errors == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_unusual_is_not_clean() {
        let mut clean = [0; LENGTH];
        clean[0x36..0x38].copy_from_slice(&[0xff, 0xff]);
        clean[0x38..0x3c].copy_from_slice(&[0x53, 0xef, 1, 0]);
        clean[0x60] = 0x42;
        assert!(says_clean(&clean));
        assert!(!says_clean(&[0; LENGTH]));
        for (what, at, byte) in [
            ("another filesystem", 0x38, 0),
            ("not unmounted", 0x3a, 0),
            ("errors seen", 0x3a, 3),
            ("journal in use", 0x60, 0x46),
            ("check due by time", 0x44, 1),
            ("orphaned inodes", 0xe8, 1),
            ("errors counted", 0x194, 1),
        ] {
            let mut changed = clean;
            changed[at] = byte;
            assert!(!says_clean(&changed), "{what}");
        }
        let mut counted = clean;
        counted[0x34..0x38].copy_from_slice(&[5, 0, 6, 0]);
        assert!(says_clean(&counted));
        counted[0x34] = 6;
        assert!(!says_clean(&counted), "check due by count");
    }
}
