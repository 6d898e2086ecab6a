//! Sizes as people write them: `100Mi`, `1.5Gi`, `2G`, `4096`.

/// Units, longest first so that `Mi` is not read as `M`.
const UNITS: [(&str, u64); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// More decimals than any size has sense for.
const DECIMALS_MAX: usize = 9;

/// Bytes, rounded up. `None` for what is no size, or more bytes than can be counted.
pub fn parse(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    let number = u128::from(whole.parse::<u64>().ok()?) * scale + decimals.parse::<u128>().ok()?;
    u64::try_from((number * u128::from(unit)).div_ceil(scale)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read() {
        let table = [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("100Mi", Some(100 << 20)),
            ("1.5Gi", Some(3 << 29)),
            ("2G", Some(2_000_000_000)),
            ("1k", Some(1000)),
            ("0.1", Some(1)),
            ("15Ei", Some(15 << 60)),
            ("16Ei", None),
            ("99999999999999999999", None),
            ("", None),
            ("Mi", None),
            ("1.", None),
            (".5Gi", None),
            ("1.0000000001Gi", None),
            ("-1Gi", None),
            ("+1Gi", None),
            ("1 Gi", None),
            ("1mi", None),
            ("1e3", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
