//! Random requests in protobuf's own encoding: mostly sensible, often hostile, sometimes no message at all.

use super::super::world::{NODE, OTHER_NODE, STAGING, TARGETS};
use crate::local::TOPOLOGY_KEY;

#[derive(Clone, Copy)]
pub enum Field {
    Id,
    Ids,
    SnapshotId,
    SnapshotIds,
    GroupId,
    Node,
    Staging,
    Target,
    Token,
    Number,
    Size,
    Flag,
    Map,
    Mutable,
    Context,
    Range,
    Source,
    Topology,
    Requirement,
    Capability,
    Capabilities,
}

const HOSTILE: [&str; 14] = [
    "",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    ".lock",
    "a\0b",
    "☃",
    "/",
    "/var/lib/pool/volumes/v1/disk.img",
    "/var/lib/pool/volumes/v1",
    "/var/lib//secret",
    "-rf",
    "%s%n${IFS}",
];

/// A stream of choices that depends on its seed only, and remembers every path it wrote into a request.
pub struct Dice {
    state: u64,
    pub given: Vec<String>,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, given: Vec::new() }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 8) % end
    }

    /// True once in `n`.
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    fn text(&mut self, usual: &[&str]) -> String {
        match self.below(16) {
            0 => (*self.pick(&HOSTILE)).to_owned(),
            1 => "x".repeat(self.below(300) as usize),
            _ => (*self.pick(usual)).to_owned(),
        }
    }
}

pub fn random(dice: &mut Dice, fields: &[(u32, Field)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in fields {
        if !dice.once_in(12) {
            write(dice, &mut out, *number, *field);
        }
    }
    if dice.once_in(10) {
        spoil(dice, &mut out);
    }
    out
}

/// Flips, cuts or adds bytes.
fn spoil(dice: &mut Dice, bytes: &mut Vec<u8>) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        match dice.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, dice.next() as u8),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = dice.next() as u8;
                }
            }
        }
    }
}

fn write(dice: &mut Dice, out: &mut Vec<u8>, number: u32, field: Field) {
    const VOLUMES: [&str; 4] = ["v1", "v2", "v3", "v4"];
    const SNAPSHOTS: [&str; 3] = ["s1", "s2", "s3"];
    match field {
        Field::Id => text(out, number, &dice.text(&VOLUMES)),
        Field::SnapshotId => text(out, number, &dice.text(&SNAPSHOTS)),
        Field::GroupId => text(out, number, &dice.text(&["g1", "g2"])),
        Field::Node => text(out, number, &dice.text(&[NODE, NODE, OTHER_NODE, "unknown"])),
        Field::Token => text(out, number, &dice.text(&["", "", "after:v1", "after:../x", "nonsense"])),
        Field::Staging => path(dice, out, number, STAGING),
        Field::Target => path(dice, out, number, TARGETS),
        Field::Ids => (0..dice.below(4)).for_each(|_| write(dice, out, number, Field::Id)),
        Field::SnapshotIds => (0..dice.below(4)).for_each(|_| write(dice, out, number, Field::SnapshotId)),
        Field::Number => varint(out, number, *dice.pick(&[0, 1, 2, 100, u64::MAX, i32::MAX as u64])),
        Field::Size => {
            let wild = dice.next();
            varint(
                out,
                number,
                *dice.pick(&[0, 0, 1, 1 << 20, 64 << 20, 512 << 20, i64::MAX as u64, u64::MAX, wild]),
            );
        }
        Field::Flag => varint(out, number, dice.below(2)),
        Field::Map => {
            map(dice, out, number, &["csi.storage.k8s.io/pvc/name", "mkfsOptions", "fsLabel", "odd"])
        }
        Field::Mutable => map(dice, out, number, &["discard", "readAheadKiB", "odd"]),
        Field::Context => map(dice, out, number, &["csi.storage.k8s.io/ephemeral", "size", "odd"]),
        Field::Range => nested(dice, out, number, &[(1, Field::Size), (2, Field::Size)]),
        Field::Source => {
            let (kind, id) = *dice.pick(&[(1, Field::SnapshotId), (2, Field::Id)]);
            let mut inner = Vec::new();
            nested(dice, &mut inner, kind, &[(1, id)]);
            if dice.once_in(3) {
                bytes(out, number, &inner);
            }
        }
        Field::Topology => {
            let mut inner = Vec::new();
            entry(&mut inner, 1, TOPOLOGY_KEY, &dice.text(&[NODE, "elsewhere"]));
            bytes(out, number, &inner);
        }
        Field::Requirement => {
            if dice.once_in(3) {
                nested(dice, out, number, &[(1, Field::Topology), (2, Field::Topology)]);
            }
        }
        Field::Capability => capability(dice, out, number),
        Field::Capabilities => (0..=dice.below(2)).for_each(|_| capability(dice, out, number)),
    }
}

fn path(dice: &mut Dice, out: &mut Vec<u8>, number: u32, root: &str) {
    let usual = ["a", "b", "v1", "v2"].map(|name| format!("{root}/{name}"));
    let usual: Vec<&str> = usual.iter().map(String::as_str).collect();
    let path = dice.text(&usual);
    text(out, number, &path);
    dice.given.push(path);
}

fn map(dice: &mut Dice, out: &mut Vec<u8>, number: u32, keys: &[&str]) {
    for _ in 0..dice.below(3) {
        if dice.once_in(3) {
            let key = dice.text(keys);
            let value = dice.text(&["true", "false", "256", "-F", "/etc/passwd", "100Mi"]);
            entry(out, number, &key, &value);
        }
    }
}

fn capability(dice: &mut Dice, out: &mut Vec<u8>, number: u32) {
    let mut inner = Vec::new();
    if dice.once_in(3) {
        bytes(&mut inner, 1, &[]);
    } else {
        let mut mount = Vec::new();
        text(&mut mount, 1, &dice.text(&["", "ext4", "ext4", "xfs", "btrfs"]));
        if dice.once_in(4) {
            text(&mut mount, 2, &dice.text(&["ro", "noatime", "bind", "remount,rw", "data=ordered"]));
        }
        if dice.once_in(8) {
            text(&mut mount, 3, &dice.text(&["1000", "-1", "root"]));
        }
        bytes(&mut inner, 2, &mount);
    }
    let mut mode = Vec::new();
    varint(&mut mode, 1, *dice.pick(&[1, 1, 1, 2, 3, 4, 5, 6, 7, 0, 99]));
    bytes(&mut inner, 3, &mode);
    bytes(out, number, &inner);
}

fn nested(dice: &mut Dice, out: &mut Vec<u8>, number: u32, fields: &[(u32, Field)]) {
    let mut inner = Vec::new();
    for (number, field) in fields {
        if !dice.once_in(3) {
            write(dice, &mut inner, *number, *field);
        }
    }
    bytes(out, number, &inner);
}

fn entry(out: &mut Vec<u8>, number: u32, key: &str, value: &str) {
    let mut inner = Vec::new();
    text(&mut inner, 1, key);
    text(&mut inner, 2, value);
    bytes(out, number, &inner);
}

fn text(out: &mut Vec<u8>, number: u32, value: &str) {
    bytes(out, number, value.as_bytes());
}

fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    base128(out, u64::from(number) << 3 | 2);
    base128(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, number: u32, value: u64) {
    base128(out, u64::from(number) << 3);
    base128(out, value);
}

fn base128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
