//! Settings that may change during a volume's life: CSI's mutable parameters.

use std::collections::BTreeMap;

use bowline_host::kernel::Queue;
use serde::{Deserialize, Serialize};

use crate::error::VolumeError;
use crate::id::quoted;

/// Whether what a filesystem discards becomes free in the pool. Discards pass unless this says `false`.
const DISCARD: &str = "discard";
/// How far ahead of a reader the kernel reads; the kernel chooses unless this says otherwise.
const READ_AHEAD: &str = "readAheadKiB";
const READ_AHEAD_MAX: u32 = 65_536;

type Result<T> = std::result::Result<T, VolumeError>;

/// What was set; the rest is left to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    discard: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_ahead_kib: Option<u32>,
}

pub fn is_key(key: &str) -> bool {
    matches!(key, DISCARD | READ_AHEAD)
}

impl Settings {
    /// Reads a map that holds nothing else: one bad entry refuses all of it.
    pub fn parse(field: &'static str, wire: &BTreeMap<String, String>) -> Result<Self> {
        match wire.keys().find(|key| !is_key(key)) {
            Some(key) => Err(VolumeError::Invalid { field, why: format!("unknown key `{}`", quoted(key)) }),
            None => Self::among(field, wire),
        }
    }

    /// Reads a map that may hold other entries as well.
    pub fn among(field: &'static str, wire: &BTreeMap<String, String>) -> Result<Self> {
        let invalid = |why: &str| VolumeError::Invalid { field, why: why.into() };
        let discard = match wire.get(DISCARD).map(String::as_str) {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(invalid("`discard` is neither `true` nor `false`")),
        };
        let read_ahead_kib = wire.get(READ_AHEAD).map(|text| {
            let number = text.parse().ok().filter(|number| *number <= READ_AHEAD_MAX);
            number.ok_or_else(|| invalid("`readAheadKiB` is not a number from 0 to 65536"))
        });
        Ok(Self { discard, read_ahead_kib: read_ahead_kib.transpose()? })
    }

    /// These, and those of `base` that are not set here.
    pub fn over(self, base: Self) -> Self {
        Self {
            discard: self.discard.or(base.discard),
            read_ahead_kib: self.read_ahead_kib.or(base.read_ahead_kib),
        }
    }

    /// Whether everything that is set here is set alike there.
    pub fn agrees_with(self, other: Self) -> bool {
        self.over(other) == other
    }

    /// What to tell the device.
    pub fn queue(self) -> Queue {
        Queue { discard: self.discard, read_ahead_kib: self.read_ahead_kib }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    fn set(discard: Option<bool>, read_ahead_kib: Option<u32>) -> Settings {
        Settings { discard, read_ahead_kib }
    }

    #[test]
    fn settings_read() {
        let table = [
            (map(&[]), Some(set(None, None))),
            (map(&[("discard", "true")]), Some(set(Some(true), None))),
            (map(&[("discard", "false"), ("readAheadKiB", "0")]), Some(set(Some(false), Some(0)))),
            (map(&[("readAheadKiB", "65536")]), Some(set(None, Some(65_536)))),
            (map(&[("readAheadKiB", "65537")]), None),
            (map(&[("readAheadKiB", "-1")]), None),
            (map(&[("readAheadKiB", "")]), None),
            (map(&[("readAheadKiB", "1Mi")]), None),
            (map(&[("discard", "yes")]), None),
            (map(&[("discard", "True")]), None),
            (map(&[("XXX_FakeKey", "1")]), None),
            (map(&[("discard", "true"), ("iops", "1")]), None),
        ];
        for (wire, expected) in table {
            assert_eq!(Settings::parse("mutable_parameters", &wire).ok(), expected, "{wire:?}");
        }
        let beside = map(&[("discard", "false"), ("fsType", "xfs")]);
        assert_eq!(Settings::among("parameters", &beside).ok(), Some(set(Some(false), None)));
    }

    #[test]
    fn absent_keys_change_nothing() {
        let all = set(Some(false), Some(64));
        let table = [
            (set(None, None), all, true),
            (set(Some(true), None), set(Some(true), Some(64)), false),
            (set(None, Some(0)), set(Some(false), Some(0)), false),
            (all, all, true),
        ];
        for (wish, expected, agrees) in table {
            assert_eq!(wish.over(all), expected, "{wish:?}");
            assert_eq!(wish.agrees_with(all), agrees, "{wish:?}");
        }
        assert!(!set(Some(true), None).agrees_with(Settings::default()), "not recorded is not set");
    }
}
