//! Times as Go's library reads them in the form of RFC 3339, and what it says of those it cannot read. Pure.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The form in Go's spelling.
const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// More lenient than RFC 3339 where Go is: hours may have one digit, and a comma may stand before the fraction.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    let mut reader = Reader { text, rest: text.as_bytes() };
    let year = reader.year()?;
    reader.literal("-")?;
    let month = reader.number("01", Digits::Two)?;
    reader.within((1..=12).contains(&month), "month")?;
    reader.literal("-")?;
    let day = reader.number("02", Digits::Two)?;
    reader.literal("T")?;
    let hour = reader.number("15", Digits::OneOrTwo)?;
    reader.within(hour < 24, "hour")?;
    reader.literal(":")?;
    let minute = reader.number("04", Digits::Two)?;
    reader.within(minute < 60, "minute")?;
    reader.literal(":")?;
    let second = reader.number("05", Digits::Two)?;
    reader.within(second < 60, "second")?;
    let nanosecond = reader.fraction();
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(reader.wrong(&format!("extra text: {}", quoted(reader.rest))));
    }
    let date = Date::new(year, month, day).map_err(|_| reader.wrong("day out of range"))?;
    let local = TimeZone::UTC.to_timestamp(date.at(hour, minute, second, nanosecond));
    let moment = local.and_then(|at| at.checked_sub(SignedDuration::from_secs(offset)));
    // The first and last hours of four-digit years are out of reach, and far from every other time.
    Ok(moment.unwrap_or(if year > 0 { Timestamp::MAX } else { Timestamp::MIN }))
}

#[derive(Clone, Copy, PartialEq)]
enum Digits {
    Two,
    OneOrTwo,
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn year(&mut self) -> Result<i16, String> {
        let digits = self.rest.get(..4).filter(|year| year.iter().all(u8::is_ascii_digit));
        let year = digits.ok_or_else(|| self.unreadable("2006"))?;
        let year = year.iter().fold(0, |year, digit| year * 10 + i16::from(digit - b'0'));
        self.rest = &self.rest[4..];
        Ok(year)
    }

    fn literal(&mut self, wanted: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(wanted.as_bytes()).ok_or_else(|| self.unreadable(wanted))?;
        Ok(())
    }

    fn number(&mut self, element: &str, digits: Digits) -> Result<i8, String> {
        let length = self.rest.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 || (length == 1 && digits == Digits::Two) {
            return Err(self.unreadable(element));
        }
        let (number, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(number.iter().fold(0, |number, digit| number * 10 + (digit - b'0').cast_signed()))
    }

    /// Go reads no more than nanoseconds of it.
    fn fraction(&mut self) -> i32 {
        let [b'.' | b',', digits @ ..] = self.rest else { return 0 };
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return 0;
        }
        let (digits, rest) = digits.split_at(length);
        self.rest = rest;
        let digits = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
        digits.fold(0, |nanoseconds, digit| nanoseconds * 10 + i32::from(digit - b'0'))
    }

    /// Seconds east of Greenwich.
    fn offset(&mut self) -> Result<i64, String> {
        const ELEMENT: &str = "Z07:00";
        if let [b'Z', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(0);
        }
        let whole = Reader { text: self.text, rest: self.rest };
        let unreadable = |_| whole.unreadable(ELEMENT);
        let [sign, rest @ ..] = self.rest else { return Err(whole.unreadable(ELEMENT)) };
        self.rest = rest;
        let hours = self.number(ELEMENT, Digits::Two).map_err(unreadable)?;
        self.literal(":").map_err(unreadable)?;
        let minutes = self.number(ELEMENT, Digits::Two).map_err(unreadable)?;
        self.within(hours <= 24, "time zone offset hour")?;
        self.within(minutes <= 60, "time zone offset minute")?;
        let seconds = (i64::from(hours) * 60 + i64::from(minutes)) * 60;
        match sign {
            b'+' => Ok(seconds),
            b'-' => Ok(-seconds),
            _ => Err(whole.unreadable(ELEMENT)),
        }
    }

    fn within(&self, within: bool, what: &str) -> Result<(), String> {
        if within { Ok(()) } else { Err(self.wrong(&format!("{what} out of range"))) }
    }

    fn unreadable(&self, element: &str) -> String {
        let (text, rest) = (quoted(self.text.as_bytes()), quoted(self.rest));
        format!("parsing time {text} as {LAYOUT:?}: cannot parse {rest} as {element:?}")
    }

    fn wrong(&self, why: &str) -> String {
        format!("parsing time {}: {why}", quoted(self.text.as_bytes()))
    }
}

/// This part of Go's library has a way of its own.
fn quoted(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b' '..=b'~' | 0x7f => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\x{other:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, want) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.5Z"),
            ("2026-01-02T03:04:05,1234567899Z", "2026-01-02T03:04:05.123456789Z"),
            ("2026-01-02T3:04:05+01:30", "2026-01-02T01:34:05Z"),
            ("2026-01-02T03:04:05-24:60", "2026-01-03T04:04:05Z"),
        ] {
            assert_eq!(parse(text), Ok(want.parse().unwrap()), "{text}");
        }
        assert_eq!(parse("9999-12-31T23:59:59Z"), Ok(Timestamp::MAX));
    }

    /// Each as upstream's server answers it.
    #[test]
    fn complaints() {
        for (text, rest, element) in [
            ("yesterday", "yesterday", "2006"),
            ("20x6-01-02T03:04:05Z", "20x6-01-02T03:04:05Z", "2006"),
            ("2026", "", "-"),
            ("2026-1-02T03:04:05Z", "1-02T03:04:05Z", "01"),
            ("2026-01-02", "", "T"),
            ("2026-01-02 03:04:05Z", " 03:04:05Z", "T"),
            ("2026-01-02T03:04:05", "", "Z07:00"),
            ("2026-01-02T03:04:05+0100", "+0100", "Z07:00"),
            ("2026-01-02T03:04:05*01:00", "*01:00", "Z07:00"),
        ] {
            let want = format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {element:?}");
            assert_eq!(parse(text), Err(want));
        }
        for (text, why) in [
            ("2026-13-01T00:00:00Z", "month out of range"),
            ("2026-02-30T00:00:00Z", "day out of range"),
            ("2026-01-02T24:04:05Z", "hour out of range"),
            ("2026-01-02T03:61:05Z", "minute out of range"),
            ("2026-01-02T03:04:60Z", "second out of range"),
            ("2026-01-02T03:04:05+25:00", "time zone offset hour out of range"),
            ("2026-01-02T03:04:05+01:61", "time zone offset minute out of range"),
            ("2026-01-02T03:04:05Zx", "extra text: \"x\""),
        ] {
            assert_eq!(parse(text), Err(format!("parsing time {text:?}: {why}")));
        }
        let quoted = r#""a\"\\\xc3\xbc""#;
        let want = format!("parsing time {quoted} as {LAYOUT:?}: cannot parse {quoted} as \"2006\"");
        assert_eq!(parse("a\"\\\u{fc}"), Err(want));
    }
}
