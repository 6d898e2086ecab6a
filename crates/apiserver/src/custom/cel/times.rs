//! Parts of times and spans. Times are in UTC.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::value::Val;

pub fn part_of_time<'a>(name: &str, at: Timestamp) -> Option<Val<'a>> {
    let at = at.to_zoned(TimeZone::UTC);
    Some(Val::Int(match name {
        "getFullYear" => at.year().into(),
        "getMonth" => i64::from(at.month()) - 1,
        "getDate" => at.day().into(),
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDayOfWeek" => at.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getHours" => at.hour().into(),
        "getMinutes" => at.minute().into(),
        "getSeconds" => at.second().into(),
        "getMilliseconds" => at.millisecond().into(),
        _ => return None,
    }))
}

pub fn part_of_span<'a>(name: &str, span: SignedDuration) -> Option<Val<'a>> {
    Some(Val::Int(match name {
        "getHours" => span.as_secs() / 3600,
        "getMinutes" => span.as_secs() / 60,
        "getSeconds" => span.as_secs(),
        "getMilliseconds" => i64::try_from(span.as_millis()).unwrap_or(i64::MAX),
        _ => return None,
    }))
}

pub fn shown(span: SignedDuration) -> String {
    let (seconds, nanos) = (span.as_secs(), span.subsec_nanos().abs());
    if nanos == 0 {
        return format!("{seconds}s");
    }
    let sign = if span.is_negative() && seconds == 0 { "-" } else { "" };
    let fraction = format!("{nanos:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}
