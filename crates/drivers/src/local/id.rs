//! Volume ids, which are also directory names in the pool.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// With the prefix of a page token, the longest id still fits the 128 bytes CSI gives a string.
const LENGTH_MAX: usize = 120;

/// Longest part of an unusable id that an error repeats.
const QUOTED_MAX: usize = 64;

/// A single, harmless path component. Nothing else is ever joined to the pool's path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VolumeId(String);

impl VolumeId {
    /// The id of the volume with this name. It depends on nothing else, so a repeat of a call whose answer was
    /// lost finds the same volume, even if only half of it was made.
    pub fn for_name(name: &str) -> Self {
        Self::parse(name).unwrap_or_else(|| Self(format!("vol-{:x}", Sha256::digest(name))))
    }

    /// Reads an id handed out earlier. `None` means that no volume can have it.
    pub fn parse(text: &str) -> Option<Self> {
        let safe = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        let valid = text.len() <= LENGTH_MAX
            && text.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric())
            && text.bytes().all(safe)
            && !text.contains("..");
        valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
    }
}
