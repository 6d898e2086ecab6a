//! Bytes as people write them: `1073741824`, `100Gi`, `500M`.

const UNITS: [(&str, u64); 13] = [
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
    ("", 1),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a whole number of bytes, such as `1073741824`, `100Gi` or `500M`")]
pub struct BadQuantity;

pub fn bytes(text: &str) -> Result<u64, BadQuantity> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(BadQuantity)?;
    let number: u64 = number.parse().map_err(|_| BadQuantity)?;
    number.checked_mul(*factor).ok_or(BadQuantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        let table = [
            ("0", Some(0)),
            ("1024", Some(1024)),
            ("100Gi", Some(100 << 30)),
            ("1Ki", Some(1024)),
            ("2k", Some(2000)),
            ("500M", Some(500_000_000)),
            ("15Ei", Some(15 << 60)),
            ("16Ei", None),
            ("Gi", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5Gi", None),
            ("1 Gi", None),
            ("1GiB", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }
}
