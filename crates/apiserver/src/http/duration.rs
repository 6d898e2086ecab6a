//! Durations as Go reads them: `1h30m`, `1.5s`, `-3s`.

use std::time::Duration;

/// One unit and its nanoseconds; longer names first, as `m` begins `ms`.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// What is negative counts as nothing. The error is Go's.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, scale) = known.ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        nanos += number * scale;
        rest = behind;
    }
    if negative {
        return Ok(Duration::ZERO);
    }
    Duration::try_from_secs_f64(nanos / 1e9).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let millis = |n| Ok(Duration::from_millis(n));
        let cases = [
            ("32s", millis(32_000)),
            ("1m30s", millis(90_000)),
            ("1.5s", millis(1500)),
            ("+10ms", millis(10)),
            ("0", millis(0)),
            ("-3s", millis(0)),
            ("abc", Err("time: invalid duration \"abc\"".into())),
            ("", Err("time: invalid duration \"\"".into())),
            ("3", Err("time: missing unit in duration \"3\"".into())),
            ("3x", Err("time: unknown unit \"x\" in duration \"3x\"".into())),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }
}
