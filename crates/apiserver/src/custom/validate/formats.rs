//! `format`: names of shapes that text has.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use bowline_api::name::{label_errors, subdomain_errors};
use jiff::SignedDuration;
use jiff::civil::Date;
use regex::Regex;

use crate::custom::cel;
use crate::custom::schema::Schema;

/// Formats of text, without the dashes that may stand in them.
const TEXT: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The format of a schema, if values of its type have one by that name; else nothing.
pub fn effective(schema: &Schema) -> &str {
    if is_recognized(schema) { &schema.format } else { "" }
}

/// Whether the format means anything for the type. A definition with others is accepted with a warning.
pub fn is_recognized(schema: &Schema) -> bool {
    let format = schema.format.as_str();
    match schema.type_.as_str() {
        "" | "string" => is_known(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => format.is_empty(),
    }
}

pub fn is_known(format: &str) -> bool {
    TEXT.contains(&format.replace('-', "").as_str())
}

pub fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => is_ipv4(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        name @ ("uuid" | "uuid3" | "uuid4" | "uuid5") => is_uuid(text, name.as_bytes().get(4).copied()),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => matches(&SSN, text),
        "hexcolor" => matches(&HEX_COLOR, text),
        "rgbcolor" => matches(&RGB_COLOR, text),
        "byte" => matches(&BASE64, text),
        "date" => is_date(text),
        "duration" => duration(text).is_some(),
        "datetime" => is_date_time(text),
        "k8sshortname" => label_errors(text).is_empty(),
        "k8slongname" => subdomain_errors(text).is_empty(),
        _ => true,
    }
}

type Lazy = LazyLock<Option<Regex>>;

macro_rules! regex {
    ($name:ident, $pattern:literal) => {
        static $name: Lazy = LazyLock::new(|| Regex::new($pattern).ok());
    };
}

regex!(SSN, r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
regex!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
regex!(
    RGB_COLOR,
    r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*\)$"
);
regex!(BASE64, r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$");
regex!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
regex!(UUID, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{12}$");
regex!(
    CREDIT_CARD,
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
);
regex!(TIME, r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
regex!(WORDED_DURATION, r"([0-9]+)\s*([A-Za-zµ]+)");

fn matches(regex: &Lazy, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// What Go takes for the address in the first line of a request: a scheme or a rooted path.
fn is_uri(text: &str) -> bool {
    let printable = text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    let scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let mut letters = scheme.chars();
        letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    });
    printable && (scheme || text.starts_with('/'))
}

/// `local@domain`, possibly after a name in front of `<…>`.
fn is_email(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text.trim(),
    };
    let atom = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|part| !part.is_empty())
            && text.chars().all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c))
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
        (quoted || atom(local)) && atom(domain)
    })
}

fn is_hostname(text: &str) -> bool {
    matches(&HOSTNAME, text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// Leading zeros are tolerated.
fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let byte = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|n| n < 256)
    };
    parts.len() == 4 && parts.iter().all(byte)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    (is_ipv4(address) && length <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && length <= 128)
        || (address.parse::<Ipv4Addr>().is_ok() && length <= 32)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('.') {
        '.'
    } else if text.contains('-') {
        '-'
    } else {
        ':'
    };
    let digits = if separator == '.' { 4 } else { 2 };
    let parts: Vec<&str> = text.split(separator).collect();
    let shape = |part: &&str| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(parts.len() * digits, 12 | 16 | 40) && parts.iter().all(shape)
}

/// `version` is the digit that says how the id was made.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let Some(found) = UUID.as_ref().and_then(|regex| regex.captures(text)) else { return false };
    let variant = || found[2].bytes().all(|digit| b"89abAB".contains(&digit));
    match version {
        None => true,
        Some(b'3') => found[1].as_bytes() == b"3",
        Some(version) => found[1].as_bytes() == [version] && variant(),
    }
}

fn digits_of(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| if c == 'X' { Some(10) } else { c.to_digit(10) }).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text);
    let plain = text.chars().all(|c| c.is_ascii_digit() || "- X".contains(c));
    let sum: u32 = digits.iter().enumerate().map(|(at, digit)| (10 - at.min(10) as u32) * digit).sum();
    plain && digits.len() == 10 && !digits[..9].contains(&10) && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of(text);
    let plain = text.chars().all(|c| c.is_ascii_digit() || "- ".contains(c));
    let sum: u32 =
        digits.iter().enumerate().map(|(at, digit)| if at % 2 == 0 { *digit } else { 3 * digit }).sum();
    plain && digits.len() == 13 && sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn = |(at, digit): (usize, u32)| match (at % 2, digit * 2) {
        (0, _) => digit,
        (_, doubled) => doubled / 10 + doubled % 10,
    };
    let sum: u32 = number.chars().rev().filter_map(|c| c.to_digit(10)).enumerate().map(luhn).sum();
    matches(&CREDIT_CARD, &number) && sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let Some(found) = TIME.as_ref().and_then(|regex| regex.captures(time)) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Units of time, in nanoseconds, and how they are called; the last name of each may go on.
const UNITS: [(i64, &[&str]); 8] = [
    (1, &["ns", "nano"]),
    (1_000, &["us", "µs", "micro"]),
    (1_000_000, &["ms", "milli"]),
    (1_000_000_000, &["s", "sec"]),
    (60_000_000_000, &["m", "min"]),
    (3_600_000_000_000, &["h", "hr", "hour"]),
    (86_400_000_000_000, &["d", "day"]),
    (604_800_000_000_000, &["w", "wk", "week"]),
];

/// Go's `1h30m`, or words such as `2 days`, among whatever else there is.
pub fn duration(text: &str) -> Option<SignedDuration> {
    if let Ok(span) = cel::duration(text) {
        return Some(span);
    }
    let mut total: Option<i64> = None;
    for found in WORDED_DURATION.as_ref()?.captures_iter(text) {
        let count: i64 = found[1].parse().ok()?;
        let word = found[2].to_lowercase();
        let named = |names: &[&str]| {
            names.contains(&word.as_str()) || names.last().is_some_and(|last| word.starts_with(last))
        };
        for (unit, _) in UNITS.iter().filter(|(_, names)| named(names)) {
            // Upstream does not look whether the sum still fits.
            total = Some(total.unwrap_or(0).wrapping_add(count.wrapping_mul(*unit)));
        }
    }
    total.map(SignedDuration::from_nanos)
}
