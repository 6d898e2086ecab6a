//! Ids of volumes and snapshots, which are also directory names in the pool.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// With the prefix of a page token, the longest id still fits the 128 bytes CSI gives a string.
const LENGTH_MAX: usize = 120;

/// Longest part of an unusable id that an error repeats.
const QUOTED_MAX: usize = 64;

/// What an id names.
pub trait Kind {
    /// For error messages.
    const NOUN: &'static str;
    /// Begins the ids of names that cannot be ids themselves.
    const PREFIX: &'static str;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volume {}
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Snapshot {}
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {}

impl Kind for Volume {
    const NOUN: &'static str = "volume";
    const PREFIX: &'static str = "vol";
}

impl Kind for Snapshot {
    const NOUN: &'static str = "snapshot";
    const PREFIX: &'static str = "snap";
}

impl Kind for Group {
    const NOUN: &'static str = "group snapshot";
    const PREFIX: &'static str = "group";
}

pub type VolumeId = Id<Volume>;
pub type SnapshotId = Id<Snapshot>;
pub type GroupId = Id<Group>;

/// A single, harmless path component. Nothing else is ever joined to the pool's path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Id<K> {
    text: String,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Id<K> {
    /// The id of the thing with this name. It depends on nothing else, so a repeat of a call whose answer was
    /// lost finds the same thing, even if only half of it was made.
    pub fn for_name(name: &str) -> Self {
        let hashed = || Self::new(format!("{}-{:x}", K::PREFIX, Sha256::digest(name)));
        Self::parse(name).unwrap_or_else(hashed)
    }

    /// Reads an id handed out earlier. `None` means that nothing can have it.
    pub fn parse(text: &str) -> Option<Self> {
        let safe = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        let valid = text.len() <= LENGTH_MAX
            && text.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric())
            && text.bytes().all(safe)
            && !text.contains("..");
        valid.then(|| Self::new(text.to_owned()))
    }

    fn new(text: String) -> Self {
        Self { text, kind: PhantomData }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What to hold while working on it.
    pub fn key(&self) -> Key {
        Key { noun: K::NOUN, id: self.text.clone() }
    }
}

impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One thing of any kind, as operations hold it and errors name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    noun: &'static str,
    id: String,
}

impl Key {
    pub fn noun(&self) -> &'static str {
        self.noun
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.noun, self.id)
    }
}

/// An id as the caller wrote it, cut to a length that fits an error message.
pub fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_components_are_ids() {
        let long = "a".repeat(LENGTH_MAX);
        for good in ["pvc-1f3c", "A.b_c-9", "0", long.as_str()] {
            assert!(VolumeId::parse(good).is_some(), "{good}");
        }
        let longer = "a".repeat(LENGTH_MAX + 1);
        let bad = ["", ".", "..", "../x", "a/b", "/a", "a..b", ".hidden", "-x", "a b", "a\0", "ä", &longer];
        for bad in bad {
            assert_eq!(VolumeId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn every_name_has_one_stable_harmless_id() {
        let names = ["pvc-1", "../../etc/passwd", "a/b", "snow ☃", &"x".repeat(128)];
        for name in names {
            let id = VolumeId::for_name(name);
            assert_eq!(id, VolumeId::for_name(name));
            assert_eq!(VolumeId::parse(id.as_str()), Some(id));
        }
        assert_eq!(VolumeId::for_name("pvc-1").as_str(), "pvc-1");
        assert_ne!(VolumeId::for_name("a/b"), VolumeId::for_name("a/c"));
        assert!(SnapshotId::for_name("a/b").as_str().starts_with("snap-"));
    }
}
