//! The ext2/3/4 superblock, as far as it says how large and how healthy the filesystem is (ext4 disk layout, "The Super Block").

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;

const POSITION: u64 = 1024;
const LENGTH: usize = 1024;

const MAGIC: u16 = 0xef53;
const STATE_VALID: u16 = 1;
const STATE_ERROR: u16 = 2;
/// The journal was not emptied: the filesystem was in use when its machine, or its device, went away.
const NEEDS_RECOVERY: u32 = 4;
/// Blocks are counted in 64 bits.
const WIDE_NUMBERS: u32 = 0x80;
const SMALLEST_BLOCK: u64 = 1024;

/// Whether fsck would look at the superblock and leave again: cleanly unmounted, no errors seen, and no check
/// due by count or by time. Starting a program to hear that costs more than everything else on the way.
pub(super) fn is_clean(device: &Path) -> io::Result<bool> {
    Ok(Superblock::read(device)?.says_clean())
}

/// Bytes the filesystem was made for or last grown to. The kernel changes the superblock of a mounted one
/// through the cache of its device, so this holds then, too.
pub(super) fn size(device: &Path) -> io::Result<u64> {
    let superblock = Superblock::read(device)?;
    superblock.size().ok_or_else(|| Errno::EINVAL.into())
}

/// Errors counted since the last repair.
pub(super) fn errors(device: &Path) -> io::Result<u64> {
    let superblock = Superblock::read(device)?;
    if superblock.is_ext4() { Ok(superblock.long(0x194).into()) } else { Err(Errno::EINVAL.into()) }
}

struct Superblock([u8; LENGTH]);

impl Superblock {
    fn read(device: &Path) -> io::Result<Self> {
        let mut bytes = [0; LENGTH];
        File::open(device)?.read_exact_at(&mut bytes, POSITION)?;
        Ok(Self(bytes))
    }

    fn short(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn long(&self, at: usize) -> u32 {
        u32::from(self.short(at)) | u32::from(self.short(at + 2)) << 16
    }

    fn is_ext4(&self) -> bool {
        self.short(0x38) == MAGIC
    }

    fn size(&self) -> Option<u64> {
        let wide = self.long(0x60) & WIDE_NUMBERS != 0;
        let high = if wide { u64::from(self.long(0x150)) << 32 } else { 0 };
        let block = SMALLEST_BLOCK.checked_shl(self.long(0x18))?;
        self.is_ext4().then_some(())?;
        (high | u64::from(self.long(0x4))).checked_mul(block)
    }

    fn says_clean(&self) -> bool {
        let (mounts, mounts_max) = (self.short(0x34), self.short(0x36).cast_signed());
        let (state, check_interval, incompatible) = (self.short(0x3a), self.long(0x44), self.long(0x60));
        let (orphans, errors) = (self.long(0xe8), self.long(0x194));
        self.is_ext4()
            && state & (STATE_VALID | STATE_ERROR) == STATE_VALID
            && incompatible & NEEDS_RECOVERY == 0
            && (mounts_max <= 0 || mounts < mounts_max.cast_unsigned())
            && check_interval == 0
            && orphans == 0
            && errors == 0
    }
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
        assert!(Superblock(clean).says_clean());
        assert!(!Superblock([0; LENGTH]).says_clean());
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
            assert!(!Superblock(changed).says_clean(), "{what}");
        }
        let mut counted = clean;
        counted[0x34..0x38].copy_from_slice(&[5, 0, 6, 0]);
        assert!(Superblock(counted).says_clean());
        counted[0x34] = 6;
        assert!(!Superblock(counted).says_clean(), "check due by count");
    }

    #[test]
    fn sizes_are_read_in_both_widths() {
        let mut superblock = [0; LENGTH];
        assert_eq!(Superblock(superblock).size(), None, "another filesystem");
        superblock[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        superblock[0x4..0x8].copy_from_slice(&[0, 1, 0, 0]);
        superblock[0x150] = 1;
        assert_eq!(Superblock(superblock).size(), Some(256 << 10));
        superblock[0x18] = 2;
        assert_eq!(Superblock(superblock).size(), Some(1 << 20));
        superblock[0x60] = 0x80;
        assert_eq!(Superblock(superblock).size(), Some((1 << 44) + (1 << 20)));
        superblock[0x18] = 0xff;
        assert_eq!(Superblock(superblock).size(), None, "nonsense");
    }
}
