//! Complaints that show a value as upstream's own types print it.

use serde::Serialize;

use super::same::{self, json};
use crate::field::{Invalid, Reason};
use crate::schema::Schema;

/// Lines around a change.
const CONTEXT: usize = 3;

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

/// `field is immutable`, unless nothing changed.
pub fn immutable<T: Serialize>(field: &str, type_name: &str, new: &T, old: &T) -> Option<Invalid> {
    (!same::same(new, old)).then(|| invalid(field, type_name, new, "field is immutable"))
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
    // Length of the longest common rest, from each pair of positions.
    let mut rest = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for (i, before) in old.iter().enumerate().rev() {
        for (j, after) in new.iter().enumerate().rev() {
            rest[i][j] =
                if before == after { rest[i + 1][j + 1] + 1 } else { rest[i + 1][j].max(rest[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((Side::Both, old[i].as_str()));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || rest[i + 1][j] >= rest[i][j + 1]) {
            lines.push((Side::Old, old[i].as_str()));
            i += 1;
        } else {
            lines.push((Side::New, new[j].as_str()));
            j += 1;
        }
    }
    lines
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
    let mut next = changed.iter().copied().peekable();
    while let Some(first) = next.next() {
        let mut last = first;
        while let Some(index) = next.next_if(|index| *index <= last + 2 * CONTEXT + 1) {
            last = index;
        }
        let (from, to) = (first.saturating_sub(CONTEXT), (last + CONTEXT + 1).min(lines.len()));
        let count =
            |range: &[(Side, &str)], other: Side| range.iter().filter(|(side, _)| *side != other).count();
        let (before, within) = (&lines[..from], &lines[from..to]);
        out.push_str(&format!(
            "@@ -{} +{} @@\n",
            span(count(before, Side::New), count(within, Side::New)),
            span(count(before, Side::Old), count(within, Side::Old)),
        ));
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
}
