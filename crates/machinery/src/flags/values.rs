//! Values of flags as Go writes them.

use std::path::PathBuf;
use std::time::Duration;

/// Nanoseconds per unit. Longer names come before those they start with.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Reads `300ms`, `1.5h`, `1m30s` or `0`. A bare number is refused, as upstream does; so is a negative duration, which
/// upstream takes and which no flag gives a meaning.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration such as `15s` or `1m30s`");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.starts_with('-') {
        return Err(format!("`{text}` is negative; give a duration such as `15s` or `1m30s`"));
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = UNITS.iter().find(|(name, _)| *name == &rest[..end]).ok_or_else(wrong)?;
        nanos += number * unit.1;
        rest = &rest[end..];
    }
    // Go counts nanoseconds in 63 bits.
    if nanos >= i64::MAX as f64 {
        return Err(format!("`{text}` is longer than a duration can be"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads a boolean in one of Go's spellings.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("`{text}` is not a boolean; use true or false")),
    }
}

/// Reads the address of a socket: an absolute path, or the same behind `unix://`.
pub fn socket(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    if path.is_absolute() { Ok(path) } else { Err(format!("`{text}` is not an absolute path of a socket")) }
}

/// Reads a label of a Lease, `key:value`.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((key, value)) if !key.is_empty() && !value.contains(':') => Ok((key.into(), value.into())),
        _ => Err(format!("`{text}` is not a label; write `key:value`, separated by commas")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_writes_them() {
        let table = [
            ("300ms", 300),
            ("1.5h", 5_400_000),
            ("1m30s", 90_000),
            ("0", 0),
            ("+0", 0),
            ("10s", 10_000),
            (".5s", 500),
            ("1.s", 1000),
            ("0s", 0),
            ("2000us", 2),
            ("2000µs", 2),
            ("3000000ns", 3),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        let wrong = [
            "10",
            "",
            "ten",
            "-1s",
            "1m30",
            "1 hour",
            "1hour",
            "PT1H",
            "1m 30s",
            ".s",
            "1.2.3s",
            "s",
            "1d",
            "300y",
            "9999999999h",
            "1e3s",
            " 1s",
        ];
        for text in wrong {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sockets_are_absolute_paths() {
        assert_eq!(socket("unix:///run/csi/socket"), Ok("/run/csi/socket".into()));
        assert_eq!(socket("/run/csi/socket"), Ok("/run/csi/socket".into()));
        assert!(socket("csi.sock").is_err());
    }

    #[test]
    fn labels_have_exactly_one_colon() {
        assert_eq!(label("team:storage"), Ok(("team".into(), "storage".into())));
        assert_eq!(label("team:"), Ok(("team".into(), String::new())));
        for text in ["team", "a:b:c", ":x", ""] {
            assert!(label(text).is_err(), "{text}");
        }
    }
}
