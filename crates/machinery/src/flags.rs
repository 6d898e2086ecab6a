//! Values of command-line flags as Go writes them.

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;

/// Reads `300ms`, `1.5h`, `1m30s` or `0`. A bare number is refused, as upstream does.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("`{text}` is not a duration such as `15s` or `1m30s`");
    let parsed: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(parsed).map_err(|_| wrong())
}

/// Reads the address of a socket: an absolute path, or the same behind `unix://`.
pub fn socket(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    if path.is_absolute() { Ok(path) } else { Err(format!("`{text}` is not an absolute path of a socket")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_writes_them() {
        let table = [("300ms", 300), ("1.5h", 5_400_000), ("1m30s", 90_000), ("0", 0), ("10s", 10_000)];
        for (text, millis) in table {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(socket("unix:///run/csi/socket"), Ok("/run/csi/socket".into()));
        assert!(socket("csi.sock").is_err());
        for text in ["10", "", "ten", "-1s", "1m30"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
