//! What a workload keeps on a volume, made so that every byte of it can be checked.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

const FILES: u64 = 3;
const FILE_LENGTH: usize = 64 << 10;
/// Block devices get each generation at its own offset.
const STRIDE: u64 = 8 << 20;

/// Content that depends on its name and generation only, so that a reader needs no copy to compare with. No two
/// words of it are equal, so a byte out of place is noticed.
fn bytes(generation: u64, file: u64) -> Vec<u8> {
    let mut word = (generation << 32 | file << 16 | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut out = Vec::with_capacity(FILE_LENGTH);
    while out.len() < FILE_LENGTH {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

/// Writes one generation and makes it durable.
pub fn write(target: &Path, generation: u64) {
    if is_device(target) {
        let mut device = OpenOptions::new().write(true).open(target).unwrap();
        device.seek(SeekFrom::Start(offset(generation))).unwrap();
        device.write_all(&bytes(generation, 0)).unwrap();
        device.sync_all().unwrap();
        return;
    }
    for file in 0..FILES {
        let mut out = File::create(path(target, generation, file)).unwrap();
        out.write_all(&bytes(generation, file)).unwrap();
        out.sync_all().unwrap();
    }
    File::open(target).unwrap().sync_all().unwrap();
}

/// Exactly these generations are there, each byte of them.
pub fn assert_holds(target: &Path, generations: &[u64], what: &str) {
    for generation in 0..4 {
        let found = holds(target, generation);
        assert_eq!(found, generations.contains(&generation), "{what}: generation {generation}");
    }
}

/// Whether a generation is there; half of one is a failure.
fn holds(target: &Path, generation: u64) -> bool {
    if is_device(target) {
        let mut device = File::open(target).unwrap();
        let mut found = vec![0; bytes(generation, 0).len()];
        device.seek(SeekFrom::Start(offset(generation))).unwrap();
        if device.read_exact(&mut found).is_err() || found.iter().all(|byte| *byte == 0) {
            return false;
        }
        assert!(found == bytes(generation, 0), "generation {generation} is damaged");
        return true;
    }
    let present = (0..FILES).filter(|file| path(target, generation, *file).exists()).count() as u64;
    assert!(present == 0 || present == FILES, "generation {generation} is half there");
    for file in 0..present {
        let found = fs::read(path(target, generation, file)).unwrap();
        assert!(found == bytes(generation, file), "file {file} of generation {generation} is damaged");
    }
    present > 0
}

/// Bytes that a workload sees.
pub fn size(target: &Path) -> u64 {
    if is_device(target) {
        return File::open(target).unwrap().seek(SeekFrom::End(0)).unwrap();
    }
    let stat = rustix::fs::statvfs(target).unwrap();
    stat.f_blocks * stat.f_frsize
}

fn is_device(target: &Path) -> bool {
    fs::metadata(target).unwrap().file_type().is_block_device()
}

fn offset(generation: u64) -> u64 {
    (generation + 1) * STRIDE
}

fn path(target: &Path, generation: u64, file: u64) -> PathBuf {
    target.join(format!("{generation}-{file}"))
}
