//! Which blocks of a file are allocated and what they hold, the filesystem inside an image included.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::file::{BLOCK, File};
use super::tree::{FsId, Node, Tree};
use crate::disk::Extent;
use crate::kernel::Content;
use crate::stretches::Stretches;

/// A fingerprint of each allocated block; zero for one that reads as zeros.
pub(super) type Blocks = BTreeMap<u64, u64>;

fn fingerprint(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish() | 1
}

impl Tree {
    pub fn blocks(&self, file: &File) -> Blocks {
        let print = |bytes: &[u8]| if bytes.iter().all(|b| *b == 0) { 0 } else { fingerprint(bytes) };
        let mut blocks: Blocks = file.blocks().map(|(number, bytes)| (number, print(bytes))).collect();
        let Some(image) = self.images.get(&file.ino) else { return blocks };
        let Content::Filesystem(fs_type) = &image.content else { return blocks };
        // A superblock, and every file at a place that follows from its name.
        add(&mut blocks, 0, fingerprint((fs_type, image.identity, image.capacity)));
        let places = (file.length / BLOCK).saturating_sub(1).max(1);
        for (path, node) in self.systems.get(&FsId::Image(file.ino)).into_iter().flatten() {
            let start = fingerprint(path);
            match node {
                Node::File(inner) => {
                    add(&mut blocks, 1 + start % places, fingerprint((path, inner.length)));
                    for (number, bytes) in inner.blocks() {
                        add(&mut blocks, 1 + start.wrapping_add(number) % places, print(bytes));
                    }
                }
                Node::Symlink(target) => {
                    add(&mut blocks, 1 + start % places, fingerprint((path, target)));
                }
                Node::Dir | Node::Socket(_) | Node::Block(_) => {
                    add(&mut blocks, 1 + start % places, fingerprint(path));
                }
            }
        }
        blocks
    }
}

fn add(blocks: &mut Blocks, number: u64, print: u64) {
    let before = blocks.entry(number).or_default();
    *before = before.rotate_left(1) ^ print;
}

/// The allocated stretches of a file of `length` bytes.
pub(super) fn extents(blocks: &Blocks, length: u64, from: u64, max: usize) -> Vec<Extent> {
    let mut extents = Stretches::new(max);
    for number in blocks.keys() {
        let (start, end) = ((number * BLOCK).max(from), ((number + 1) * BLOCK).min(length));
        if start < end && !extents.add(start, end) {
            break;
        }
    }
    extents.into_found()
}

/// Where two files differ, in units of `block` bytes.
pub(super) fn changed(base: &Blocks, target: &Blocks, block: u64, from: u64, max: usize) -> Vec<Extent> {
    let mut changed = Stretches::new(max);
    let numbers: BTreeSet<&u64> = base.keys().chain(target.keys()).collect();
    let of = |blocks: &Blocks, number| blocks.get(number).copied().unwrap_or_default();
    for number in numbers.into_iter().filter(|number| of(base, number) != of(target, number)) {
        let first = (number * BLOCK / block).max(from / block);
        let last = (number * BLOCK + BLOCK - 1) / block;
        if first <= last && !changed.add(first * block, (last + 1) * block) {
            break;
        }
    }
    changed.into_found()
}
