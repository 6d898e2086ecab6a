//! Schedules in cron's notation: five fields, or one word.

/// Bounds and names of a field.
struct Field {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { least: 0, most: 59, names: &[] },
    Field { least: 0, most: 23, names: &[] },
    Field { least: 1, most: 31, names: &[] },
    Field {
        least: 1,
        most: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];
const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Why a schedule cannot be read, in the words of the library that upstream uses.
pub fn parse(schedule: &str) -> Result<(), String> {
    let schedule = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest.trim()),
        None => schedule,
    };
    if let Some(duration) = schedule.strip_prefix("@every ") {
        return interval(duration);
    }
    if schedule.starts_with('@') {
        let known = WORDS.contains(&schedule);
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {schedule}")) };
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let listed = parts.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{listed}]", parts.len()));
    }
    FIELDS
        .iter()
        .zip(parts)
        .try_for_each(|(field, part)| part.split(',').try_for_each(|range| field.range(range)))
}

impl Field {
    /// `*`, `a`, `a-b`, each with `/step`.
    fn range(&self, text: &str) -> Result<(), String> {
        let (range, step) = match text.split('/').collect::<Vec<_>>()[..] {
            [range] => (range, None),
            [range, step] => (range, Some(step)),
            _ => return Err(format!("too many slashes: {text}")),
        };
        let (low, high) = match range.split('-').collect::<Vec<_>>()[..] {
            ["*" | "?"] => (self.least, self.most),
            [one] => self.number(one).map(|one| (one, if step.is_some() { self.most } else { one }))?,
            [low, high] => (self.number(low)?, self.number(high)?),
            _ => return Err(format!("too many hyphens: {text}")),
        };
        let step = step.map_or(Ok(1), number)?;
        if low < self.least {
            return Err(format!("beginning of range ({low}) below minimum ({}): {text}", self.least));
        }
        if high > self.most {
            return Err(format!("end of range ({high}) above maximum ({}): {text}", self.most));
        }
        if low > high {
            return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
        }
        if step == 0 { Err(format!("step of range should be a positive number: {text}")) } else { Ok(()) }
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_lowercase();
        let named = self.names.iter().zip(self.least..).find(|(name, _)| **name == lower);
        named.map_or_else(|| number(text), |(_, position)| Ok(position))
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) => {
            u32::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
        }
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

/// Go's durations: numbers with units.
fn interval(text: &str) -> Result<(), String> {
    let mut rest = text;
    let wrong = || Err(format!("failed to parse duration @every {text}: time: invalid duration {text:?}"));
    if rest.is_empty() {
        return wrong();
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (_, unit) = rest.split_at(digits);
        let known = ["ns", "us", "ms", "h", "m", "s"].into_iter().find(|name| unit.starts_with(name));
        match known {
            Some(name) if digits > 0 => rest = &unit[name.len()..],
            _ => return wrong(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        let table = [
            ("* * * * *", ""),
            ("*/5 0-6,12 1 jan-MAR sun", ""),
            ("@hourly", ""),
            ("@every 1h30m", ""),
            ("TZ=Europe/Berlin 0 0 * * *", ""),
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("@never", "unrecognized descriptor: @never"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ];
        for (schedule, want) in table {
            assert_eq!(parse(schedule).err().unwrap_or_default(), want, "{schedule}");
        }
    }
}
