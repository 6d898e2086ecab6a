//! Ages as kubectl shows them: two or three significant figures.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

const UNKNOWN: &str = "<unknown>";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// How long ago an object was created.
pub fn age(meta: &ObjectMeta, now: Timestamp) -> String {
    since(meta.creation_timestamp.as_ref().map(|Time(at)| *at), now)
}

/// How long ago something happened; `<unknown>` when nobody said.
pub fn since(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| UNKNOWN.to_owned(), |then| human(now.duration_since(then).as_secs()))
}

/// A span in seconds. Clocks of two machines may differ by a second; more than that ahead is no age.
pub fn human(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, (MINUTE, 'm'), (1, 's')),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, 'd'), (HOUR, 'h')),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// `3h4m`; the smaller part is left out when it is zero.
fn two(seconds: i64, large: (i64, char), small: (i64, char)) -> String {
    let (whole, rest) = (seconds / large.0, seconds % large.0 / small.0);
    if rest == 0 { format!("{whole}{}", large.1) } else { format!("{whole}{}{rest}{}", large.1, small.1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_as_kubectl_does() {
        let table = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 4 * MINUTE, "3h4m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY - 1, "7d23h"),
            (25 * DAY, "25d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 10 * DAY, "2y10d"),
            (8 * YEAR, "8y"),
            (9 * YEAR + 300 * DAY, "9y"),
        ];
        for (seconds, want) in table {
            assert_eq!(human(seconds), want, "{seconds}");
        }
    }

    #[test]
    fn nobody_said_when() {
        assert_eq!(age(&ObjectMeta::default(), Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
