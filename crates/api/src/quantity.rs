//! Kubernetes quantities (`10Gi`, `500M`, `1e3`) and bytes.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct BadQuantity;

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18), ("", 0)];

/// Nano-units: exact for every suffix upstream accepts, and large enough for the largest.
pub const NANO: i128 = 1_000_000_000;

/// The value in billionths, so that `1.5`, `100m` and `1Gi` compare exactly.
pub fn nanos(text: &str) -> Result<i128, BadQuantity> {
    let (sign, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 30 {
        return Err(BadQuantity);
    }
    let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| BadQuantity)?;
    let scale = 10i128.checked_pow(fraction.len() as u32).ok_or(BadQuantity)?;
    let scaled = |factor: i128, divisor: i128| {
        let numerator = digits.checked_mul(factor)?.checked_mul(NANO)?;
        let denominator = scale.checked_mul(divisor)?;
        // Upstream rounds up to the smallest unit it keeps.
        Some(numerator / denominator + i128::from(numerator % denominator > 0))
    };
    let value = match suffix_of(suffix)? {
        Suffix::Binary(shift) => scaled(1i128 << shift, 1),
        Suffix::Power(exponent) if exponent >= 0 => {
            10i128.checked_pow(exponent as u32).and_then(|factor| scaled(factor, 1))
        }
        Suffix::Power(exponent) => {
            10i128.checked_pow(exponent.unsigned_abs()).and_then(|divisor| scaled(1, divisor))
        }
    };
    value.map(|v| v * sign).ok_or(BadQuantity)
}

enum Suffix {
    Binary(u32),
    Power(i32),
}

fn suffix_of(text: &str) -> Result<Suffix, BadQuantity> {
    if let Some((_, shift)) = BINARY.iter().find(|(name, _)| *name == text) {
        return Ok(Suffix::Binary(*shift));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == text) {
        return Ok(Suffix::Power(*exponent));
    }
    let exponent = text.strip_prefix(['e', 'E']).ok_or(BadQuantity)?;
    let exponent: i32 = exponent.parse().map_err(|_| BadQuantity)?;
    if exponent.abs() > 18 { Err(BadQuantity) } else { Ok(Suffix::Power(exponent)) }
}

/// Whole bytes, fractions rounded up.
pub fn bytes_of(quantity: &Quantity) -> Result<i64, BadQuantity> {
    let nanos = nanos(&quantity.0)?;
    let bytes = nanos.div_euclid(NANO) + i128::from(nanos.rem_euclid(NANO) > 0);
    i64::try_from(bytes).map_err(|_| BadQuantity)
}

/// Whether this is a quantity at all, and its sign.
pub fn sign_of(quantity: &Quantity) -> Result<std::cmp::Ordering, BadQuantity> {
    nanos(&quantity.0).map(|n| n.cmp(&0))
}

/// Which of two is larger; notation does not matter.
pub fn compare(one: &Quantity, other: &Quantity) -> Result<std::cmp::Ordering, BadQuantity> {
    Ok(nanos(&one.0)?.cmp(&nanos(&other.0)?))
}

/// Whether there is no fraction.
pub fn is_whole(quantity: &Quantity) -> Result<bool, BadQuantity> {
    nanos(&quantity.0).map(|nanos| nanos % NANO == 0)
}

/// Both together, in the notation of the second.
pub fn sum(one: &Quantity, other: &Quantity) -> Result<Quantity, BadQuantity> {
    let total = nanos(&one.0)?.checked_add(nanos(&other.0)?).ok_or(BadQuantity)?;
    let suffix = other.0.trim_start_matches(|c: char| "+-.".contains(c) || c.is_ascii_digit());
    let text = if suffix.ends_with('i') && total % NANO == 0 && total % (NANO << 10) == 0 {
        format!("{}Ki", (total / NANO) >> 10)
    } else {
        format!("{total}n")
    };
    canonical(&text).map(Quantity)
}

/// The notation in which upstream hands a quantity back: the same kind of suffix, as large as is exact, no fraction.
pub fn canonical(text: &str) -> Result<String, BadQuantity> {
    let value = nanos(text)?;
    let suffix = text.trim_start_matches(|c: char| "+-.".contains(c) || c.is_ascii_digit());
    let bytes = value / NANO;
    // Small or fractional values of a binary suffix would lose precision; they are shown in decimal.
    let binary = suffix.ends_with('i') && value % NANO == 0 && bytes.abs() >= 1024;
    if value == 0 {
        return Ok("0".into());
    }
    if binary {
        let fits = |shift: u32| bytes % (1i128 << shift) == 0;
        let unit = BINARY.iter().rev().find(|(_, shift)| fits(*shift));
        return Ok(unit.map_or(bytes.to_string(), |(name, shift)| format!("{}{name}", bytes >> shift)));
    }
    let exponential = suffix.len() > 1 && suffix.starts_with(['e', 'E']);
    let (mut number, mut exponent) = (value, -9i32);
    while number % 1000 == 0 && exponent < 18 {
        (number, exponent) = (number / 1000, exponent + 3);
    }
    let suffix = match (exponential, exponent) {
        (_, 0) => String::new(),
        (true, _) => format!("e{exponent}"),
        (false, _) => DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(name, _)| name).to_owned(),
    };
    Ok(format!("{number}{suffix}"))
}

/// Bytes in the shortest exact binary notation (`1Gi`, `1500Mi`, `1000`).
pub fn quantity_of(bytes: i64) -> Quantity {
    for (name, shift) in BINARY.iter().rev() {
        let unit = 1i64 << shift;
        if bytes != 0 && bytes % unit == 0 {
            return Quantity(format!("{}{name}", bytes / unit));
        }
    }
    Quantity(bytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_notation() {
        let q = |text: &str| Quantity(text.into());
        for (one, other, want) in [
            ("0", "1Gi", "1Gi"),
            ("1Gi", "512Mi", "1536Mi"),
            ("100m", "1", "1100m"),
            ("1", "1", "2"),
            ("1k", "1Ki", "2024"),
        ] {
            assert_eq!(sum(&q(one), &q(other)), Ok(q(want)), "{one} + {other}");
        }
        assert_eq!((is_whole(&q("1500m")), is_whole(&q("2"))), (Ok(false), Ok(true)));
    }

    #[test]
    fn bytes_of_every_notation() {
        let table = [
            ("1Gi", 1 << 30),
            ("10Gi", 10 << 30),
            ("1.5Gi", 3 << 29),
            ("1G", 1_000_000_000),
            ("1e3", 1000),
            ("12E2", 1200),
            ("100m", 1),
            ("1500m", 2),
            ("0", 0),
            ("0.5", 1),
            ("1E", 1_000_000_000_000_000_000),
            ("-1Ki", -1024),
            // As many billionths as there is room for, with none left to add before dividing.
            ("170141183460469231731687303715e-18", 170_141_183_461),
        ];
        for (text, bytes) in table {
            assert_eq!(bytes_of(&Quantity(text.into())), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_quantity() {
        for text in ["", "Gi", "1GiB", "1 Gi", "1..2", "ten", "1e", "9Ei", "1e99"] {
            assert_eq!(bytes_of(&Quantity(text.into())), Err(BadQuantity), "{text}");
        }
    }

    #[test]
    fn canonical_as_upstream_hands_it_back() {
        let table = [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("512Ki", "512Ki"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12E2", "1200"),
            ("1073741824", "1073741824"),
            ("0Gi", "0"),
            ("+5G", "5G"),
            ("-1Ki", "-1Ki"),
            ("1E", "1E"),
            ("100n", "100n"),
        ];
        for (text, want) in table {
            assert_eq!(canonical(text).as_deref(), Ok(want), "{text}");
        }
        assert_eq!(canonical("ten"), Err(BadQuantity));
    }

    #[test]
    fn compares_by_value() {
        use std::cmp::Ordering;
        let compare = |a: &str, b: &str| compare(&Quantity(a.into()), &Quantity(b.into()));
        assert_eq!(compare("1Gi", "1024Mi"), Ok(Ordering::Equal));
        assert_eq!(compare("1G", "1Gi"), Ok(Ordering::Less));
    }

    #[test]
    fn prints_the_shortest_exact_form() {
        for (bytes, text) in
            [(1 << 30, "1Gi"), (3 << 29, "1536Mi"), (1000, "1000"), (0, "0"), (1 << 50, "1Pi")]
        {
            assert_eq!(quantity_of(bytes).0, text);
            assert_eq!(bytes_of(&Quantity(text.into())), Ok(bytes));
        }
    }
}
