//! Complaints that show a value as upstream's own types print it.

use serde::Serialize;

use super::same::{self, json};
use crate::field::{Invalid, Reason};
use crate::schema::Schema;

/// Lines around a change.
const CONTEXT: usize = 3;
/// Pairs of lines that are compared at most: clients choose how long both texts are.
const TABLE_MAX: usize = 4 << 20;

/// A complaint about a value of a type like `core.v1.Taint`.
pub fn shown<T: Serialize>(reason: Reason, field: &str, type_name: &str, value: &T, detail: &str) -> Invalid {
    let text = Schema::get().go_text(type_name, &json(value));
    // The value is not JSON, so it stands in the text that follows.
    let detail = if detail.is_empty() { text } else { format!("{text}: {detail}") };
    Invalid { reason, field: field.into(), value: None, detail }
}

pub fn invalid<T: Serialize>(field: &str, type_name: &str, value: &T, detail: &str) -> Invalid {
    shown(Reason::Invalid, field, type_name, value, detail)
}

/// A complaint about a list of values of a type.
pub fn invalid_list<T: Serialize>(field: &str, type_name: &str, values: &[T], detail: &str) -> Invalid {
    let each: Vec<String> =
        values.iter().map(|value| Schema::get().go_text(type_name, &json(value))).collect();
    // To Go no list is no value.
    let text = if each.is_empty() { "null".to_owned() } else { format!("[{}]", each.join(",")) };
    Invalid { reason: Reason::Invalid, field: field.into(), value: None, detail: format!("{text}: {detail}") }
}

/// `field is immutable`, unless nothing changed.
pub fn immutable<T: Serialize>(field: &str, type_name: &str, new: &T, old: &T) -> Option<Invalid> {
    (!same::alike(type_name, new, old)).then(|| invalid(field, type_name, new, "field is immutable"))
}

/// What changed, as a unified diff of the two values, which follows upstream's fixed texts.
pub fn difference<T: Serialize>(type_name: &str, old: &T, new: &T) -> String {
    let schema = Schema::get();
    unified(&schema.go_lines(type_name, &json(old)), &schema.go_lines(type_name, &json(new)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    Old,
    New,
}

/// All lines of both texts in order, those they share once.
fn merged<'a>(old: &'a [String], new: &'a [String]) -> Vec<(Side, &'a str)> {
    fn all(lines: &[String], side: Side) -> impl Iterator<Item = (Side, &str)> {
        lines.iter().map(move |line| (side, line.as_str()))
    }
    let head = shared(old.iter(), new.iter());
    let ((start, old), (_, new)) = (old.split_at(head), new.split_at(head));
    let mut lines: Vec<(Side, &str)> = all(start, Side::Both).collect();
    if let Some(within) = compared(old, new) {
        lines.extend(within);
        return lines;
    }
    // The end is only cut off where it has to be: without it another pair of equal lines may be the one that is found.
    let tail = shared(old.iter().rev(), new.iter().rev());
    let ((old, end), (new, _)) = (old.split_at(old.len() - tail), new.split_at(new.len() - tail));
    match compared(old, new) {
        Some(within) => lines.extend(within),
        // Too much to compare line by line: the one is shown as replaced by the other.
        None => lines.extend(all(old, Side::Old).chain(all(new, Side::New))),
    }
    lines.extend(all(end, Side::Both));
    lines
}

/// How many lines are equal before the first that is not.
fn shared<'a>(old: impl Iterator<Item = &'a String>, new: impl Iterator<Item = &'a String>) -> usize {
    old.zip(new).take_while(|(before, after)| before == after).count()
}

/// The lines of both texts by their longest common part, unless the table for finding it were too large.
fn compared<'a>(old: &'a [String], new: &'a [String]) -> Option<Vec<(Side, &'a str)>> {
    let width = new.len() + 1;
    let cells = (old.len() + 1).checked_mul(width).filter(|cells| *cells <= TABLE_MAX)?;
    // Length of the longest common rest, from each pair of positions.
    let mut rest = vec![0u32; cells];
    for (i, before) in old.iter().enumerate().rev() {
        for (j, after) in new.iter().enumerate().rev() {
            let (below, right) = ((i + 1) * width + j, i * width + j + 1);
            rest[i * width + j] =
                if before == after { rest[below + 1] + 1 } else { rest[below].max(rest[right]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((Side::Both, old[i].as_str()));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || rest[(i + 1) * width + j] >= rest[i * width + j + 1]) {
            lines.push((Side::Old, old[i].as_str()));
            i += 1;
        } else {
            lines.push((Side::New, new[j].as_str()));
            j += 1;
        }
    }
    Some(lines)
}

fn unified(old: &[String], new: &[String]) -> String {
    let lines = merged(old, new);
    let changed: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, (side, _))| *side != Side::Both)
        .map(|(index, _)| index)
        .collect();
    let mut out = String::new();
    // How many lines of each text stand before what is shown next, and up to which line that is counted.
    let (mut old_before, mut new_before, mut counted) = (0, 0, 0);
    let mut next = changed.iter().copied().peekable();
    while let Some(first) = next.next() {
        let mut last = first;
        while let Some(index) = next.next_if(|index| *index <= last + 2 * CONTEXT + 1) {
            last = index;
        }
        let (from, to) = (first.saturating_sub(CONTEXT), (last + CONTEXT + 1).min(lines.len()));
        let count =
            |range: &[(Side, &str)], other: Side| range.iter().filter(|(side, _)| *side != other).count();
        let (before, within) = (&lines[counted..from], &lines[from..to]);
        (old_before, new_before) =
            (old_before + count(before, Side::New), new_before + count(before, Side::Old));
        let (old_within, new_within) = (count(within, Side::New), count(within, Side::Old));
        out.push_str(&format!("@@ -{} +{} @@\n", span(old_before, old_within), span(new_before, new_within)));
        (old_before, new_before, counted) = (old_before + old_within, new_before + new_within, to);
        for (side, line) in within {
            let mark = match side {
                Side::Both => ' ',
                Side::Old => '-',
                Side::New => '+',
            };
            out.push_str(&format!("{mark}{line}\n"));
        }
    }
    out
}

/// Where a part starts, counted from one, and how long it is.
fn span(before: usize, length: usize) -> String {
    match length {
        0 => format!("{before},0"),
        1 => format!("{}", before + 1),
        _ => format!("{},{length}", before + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As seen on upstream's server.
    #[test]
    fn values_and_changes() {
        let driver = json!({"name": "a.b", "nodeID": "z", "topologyKeys": ["z"]});
        let error = invalid("spec.drivers", "storage.v1.CSINodeDriver", &driver, "field is immutable");
        let want = r#"spec.drivers: Invalid value: {"Name":"a.b","NodeID":"z","TopologyKeys":["z"],"Allocatable":null}: field is immutable"#;
        assert_eq!(error.to_string(), want);
        let claim = |storage: &str| json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, "volumeMode": "Filesystem"});
        let want = "@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n";
        assert_eq!(difference("core.v1.PersistentVolumeClaimSpec", &claim("1Gi"), &claim("2Gi")), want);
    }

    fn lines(count: usize, text: impl Fn(usize) -> String) -> Vec<String> {
        (0..count).map(text).collect()
    }

    /// A full table of two texts like these would take eighty gigabytes.
    #[test]
    fn long_texts_take_little() {
        const LONG: usize = 100_000;
        let old = lines(LONG, |at| format!("line {at}"));
        let mut changed = old.clone();
        changed[50_000] = "other".into();
        let want = "@@ -49998,7 +49998,7 @@\n line 49997\n line 49998\n line 49999\n-line 50000\n+other\n line 50001\n line 50002\n line 50003\n";
        assert_eq!(unified(&old, &changed), want);

        let mut replaced = lines(LONG, |at| format!("new {at}"));
        replaced[0].clone_from(&old[0]);
        replaced[LONG - 1].clone_from(&old[LONG - 1]);
        let text = unified(&old, &replaced);
        let all: Vec<&str> = text.lines().collect();
        assert_eq!(all[..3], ["@@ -1,100000 +1,100000 @@", " line 0", "-line 1"]);
        assert_eq!(all[LONG - 1..=LONG], ["-line 99998", "+new 1"]);
        assert_eq!(all[2 * LONG - 3..], ["+new 99998", " line 99999"]);
    }

    #[test]
    fn parts_far_from_each_other_count_their_lines() {
        let old = lines(30, |at| at.to_string());
        let mut new = old.clone();
        new.remove(25);
        new.insert(3, "more".into());
        let want = "@@ -1,6 +1,7 @@\n 0\n 1\n 2\n+more\n 3\n 4\n 5\n@@ -23,7 +24,6 @@\n 22\n 23\n 24\n-25\n 26\n 27\n 28\n";
        assert_eq!(unified(&old, &new), want);
    }
}
