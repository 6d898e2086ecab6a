//! A regular file of the fake machine: the blocks that were written, and holes between them.

use std::collections::BTreeMap;

use super::tree::Ino;

/// Bytes that are allocated at once.
pub(super) const BLOCK: u64 = 4096;

#[derive(Debug, Clone)]
pub(super) struct File {
    pub ino: Ino,
    pub length: u64,
    pub labels: BTreeMap<String, Vec<u8>>,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl File {
    pub fn new(ino: Ino, content: &[u8]) -> Self {
        let mut file = Self { ino, length: 0, labels: BTreeMap::new(), blocks: BTreeMap::new() };
        file.write(0, content);
        file
    }

    /// The same content in a file of its own; labels belong to the first one.
    pub fn copy(&self, ino: Ino) -> Self {
        Self { ino, labels: BTreeMap::new(), ..self.clone() }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut position = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let inside = (position % BLOCK) as usize;
            let (now, later) = rest.split_at(rest.len().min(BLOCK as usize - inside));
            let block = self.blocks.entry(position / BLOCK).or_insert_with(|| vec![0; BLOCK as usize]);
            block[inside..inside + now.len()].copy_from_slice(now);
            position += now.len() as u64;
            rest = later;
        }
        self.length = self.length.max(position);
    }

    /// Every written block, by its number.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.iter().map(|(number, bytes)| (*number, self.inside(*number, bytes)))
    }

    fn inside<'a>(&self, number: u64, bytes: &'a [u8]) -> &'a [u8] {
        let end = self.length.saturating_sub(number * BLOCK).min(BLOCK) as usize;
        bytes.get(..end).unwrap_or(bytes)
    }

    pub fn is_zero(&self) -> bool {
        self.blocks.values().flatten().all(|byte| *byte == 0)
    }

    /// What was written, without the holes.
    pub fn written(&self) -> Vec<u8> {
        self.blocks().flat_map(|(_, bytes)| bytes.to_vec()).collect()
    }

    /// All of it, holes as zeros.
    pub fn whole(&self) -> Vec<u8> {
        let mut whole = vec![0; self.length as usize];
        for (number, bytes) in self.blocks() {
            let start = (number * BLOCK) as usize;
            whole[start..start + bytes.len()].copy_from_slice(bytes);
        }
        whole
    }
}
