//! Whose a new directory is: the parameters of a volume.

use std::collections::BTreeMap;

use bowline_host::disk::Owner;
use serde::{Deserialize, Serialize};

use super::capability::number;
use crate::error::VolumeError;
use crate::fields::{invalid, none_left, settings};
use crate::id::quoted;

const MODE: &str = "directoryMode";
const UID: &str = "uid";
const GID: &str = "gid";
/// The owner and the group may do everything, others nothing.
const DEFAULT_MODE: u32 = 0o770;
const MODE_MAX: u32 = 0o7777;

/// Applied once, when the directory is made; afterwards it is its users' to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    pub mode: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

impl Directory {
    /// Reads the parameters in a field of a request. Every key has to be known.
    pub fn parse(field: &'static str, wire: BTreeMap<String, String>) -> Result<Self, VolumeError> {
        let mut settings = settings(wire);
        let mode = settings.remove(MODE).map_or(Ok(DEFAULT_MODE), |text| {
            let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= MODE_MAX);
            mode.ok_or_else(|| wrong(field, MODE, &text, "an octal number up to 7777"))
        })?;
        let mut owner = |key: &'static str| {
            let read =
                |text: String| number(&text).ok_or_else(|| wrong(field, key, &text, "a number below 2³²-1"));
            settings.remove(key).map(read).transpose()
        };
        let (uid, gid) = (owner(UID)?, owner(GID)?);
        none_left(field, &settings)?;
        Ok(Self { mode, uid, gid })
    }

    pub fn owner(self) -> Owner {
        Owner { uid: self.uid, gid: self.gid, mode: self.mode }
    }
}

fn wrong(field: &'static str, key: &str, text: &str, expected: &str) -> VolumeError {
    invalid(field, format!("`{key}` is `{}`, expected {expected}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<(u32, Option<u32>, Option<u32>), String> {
        let wire = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let read = Directory::parse("parameters", wire).map_err(|error| error.to_string())?;
        Ok((read.mode, read.uid, read.gid))
    }

    #[test]
    fn parameters() {
        assert_eq!(parse(&[]), Ok((0o770, None, None)));
        assert_eq!(parse(&[("csi.storage.k8s.io/pvc/name", "data")]), Ok((0o770, None, None)));
        assert_eq!(parse(&[(MODE, "2775"), (UID, "0"), (GID, "1000")]), Ok((0o2775, Some(0), Some(1000))));
        assert_eq!(parse(&[(MODE, "0")]), Ok((0, None, None)));
        for wrong in [
            (MODE, ""),
            (MODE, "rwx"),
            (MODE, "8"),
            (MODE, "17777"),
            (MODE, "-1"),
            (UID, "root"),
            (UID, "4294967295"),
            (GID, "-1"),
            ("directorymode", "0770"),
        ] {
            let error = parse(&[wrong]).unwrap_err();
            assert!(error.contains(wrong.0), "{error}");
        }
    }
}
