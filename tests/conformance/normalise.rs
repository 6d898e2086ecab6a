//! Takes out of an answer what no two servers can have in common, and nothing else.

use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Letters and digits of upstream's generated names.
const GENERATED: &str = "[bcdfghjklmnpqrstvwxz2456789]{5}";

/// Patterns and what stands in their place.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b".to_owned(), "<uid>"),
        (r#"(resourceVersion"?: ?)"[1-9]\d*""#.to_owned(), r#"$1"<version>""#),
        (r"\b(Resource Version: +|the ResourceVersion in record \()\d+".to_owned(), "$1<version>"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ".to_owned(), "<time>"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z".to_owned(), "<precise time>"),
        // As `describe` and `diff` write it.
        (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000".to_owned(), "<time>"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \+0000".to_owned(), "<time>"),
        (r"\b(LIVE|MERGED|kubectl-edit)-\d+\b".to_owned(), "$1-<n>"),
        (r"\bX509SHA256=[0-9a-f]{64}\b".to_owned(), "X509SHA256=<digest>"),
        // An age of many years, which a script chose; as wide as it is, so that columns stay where they are.
        (r"\b\d\dy\b".to_owned(), "<y>"),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+".to_owned(), "<token>"),
        (r#"("continue": ?)"[^"]+""#.to_owned(), r#"$1"<continue>""#),
        (r"\b127\.0\.0\.1:\d+\b".to_owned(), "<server>"),
        (format!(r"\b(kube-api-access|generated|Bad)-{GENERATED}\b"), "$1-<generated>"),
    ];
    rules
        .into_iter()
        .map(|(pattern, stand_in)| (Regex::new(&pattern).expect("a pattern"), stand_in))
        .collect()
});

pub fn normalise(command: &str, answer: &str, scratch: &Path) -> String {
    let mut text = answer.replace(&scratch.display().to_string(), "<scratch>");
    for (pattern, stand_in) in RULES.iter() {
        text = pattern.replace_all(&text, *stand_in).into_owned();
    }
    if command.starts_with("kubectl explain") {
        text = structure_of_explanation(&text);
    }
    text = ages(&text);
    if command.contains("--raw") { fold(&text) } else { text }
}

/// Documents of JSON have their members in order and each on a line of its own: that order says nothing, and a
/// difference shows where it is. One that has several lines already is marked, because a client asked for them.
fn fold(text: &str) -> String {
    if text.trim_end().contains('\n')
        && let Ok(document) = serde_json::from_str::<serde_json::Value>(text)
    {
        return format!("in lines:\n{document:#}");
    }
    let folded = text.lines().map(|line| match serde_json::from_str::<serde_json::Value>(line) {
        Ok(document) if document.is_object() => format!("{document:#}"),
        _ => line.to_owned(),
    });
    folded.collect::<Vec<_>>().join("\n")
}

/// Fields with their types; what a field is for is upstream's text, not part of the protocol.
fn structure_of_explanation(text: &str) -> String {
    let is_structure = |line: &&str| {
        let indented = line.starts_with(' ');
        !indented || line.contains("\t<") || line.trim_start().starts_with("enum:")
    };
    text.lines().filter(is_structure).map(|line| format!("{line}\n")).collect()
}

/// Puts `<n>` for each age below a heading `AGE` (a table) or `Age` (events of a description).
fn ages(text: &str) -> String {
    static HEADING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(^|  )(AGE|Age)(  |$)").expect("a pattern"));
    static LABELLED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(Age: +)\d+[smh]\S*").expect("a pattern"));
    let (mut column, mut lines) = (None, Vec::new());
    for line in text.lines() {
        match HEADING.captures(line).and_then(|found| found.get(2)) {
            Some(heading) => {
                column = Some(heading.start());
                lines.push(line.to_owned());
            }
            None if line.is_empty() => {
                column = None;
                lines.push(String::new());
            }
            None => {
                let line = column.map_or_else(|| line.to_owned(), |column| without_age(line, column));
                lines.push(
                    LABELLED.replace(&line, |found: &Captures| format!("{}<n>", &found[1])).into_owned(),
                );
            }
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// An age takes two or three characters while a theme runs; the columns after it stay where they are.
fn without_age(line: &str, column: usize) -> String {
    static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+s|\d+m\d*s?) ?").expect("a pattern"));
    let Some((before, rest)) = line.split_at_checked(column) else { return line.to_owned() };
    match AGE.find(rest) {
        Some(age) if age.len() == 3 && !rest[age.end()..].is_empty() => {
            format!("{before}<n>{}", &rest[age.end()..])
        }
        Some(age) => format!("{before}<n>{}", &rest[age.as_str().trim_end().len()..]),
        None => line.to_owned(),
    }
}

#[test]
fn only_what_must_differ_goes() {
    let table = [
        ("uid: 3f2c1e9a-0d4b-4c11-9a55-0123456789ab", "uid: <uid>"),
        ("resourceVersion: \"12\"", "resourceVersion: \"<version>\""),
        ("\"resourceVersion\":\"12\"", "\"resourceVersion\":\"<version>\""),
        ("resourceVersion: \"\"", "resourceVersion: \"\""),
        ("at 2026-01-02T03:04:05Z", "at <time>"),
        ("at 2026-01-02T03:04:05.123456Z", "at <precise time>"),
        ("at null", "at null"),
        ("Mon, 02 Jan 2026 03:04:05 +0000", "<time>"),
        ("--- /tmp/x/LIVE-123/a\t2026-01-02 03:04:05.123456789 +0000", "--- <scratch>/LIVE-<n>/a\t<time>"),
        ("kube-api-access-x2x4z", "kube-api-access-<generated>"),
        ("kube-api-access-aaaaa", "kube-api-access-aaaaa"),
        ("https://127.0.0.1:4321/api", "https://<server>/api"),
        ("NAME   AGE\na      3s\nb      12s", "NAME   AGE\na      <n>\nb      <n>"),
        (
            "NAME   AGE   LABELS\na      3s    x=y\nb      12s   x=y",
            "NAME   AGE   LABELS\na      <n>   x=y\nb      <n>   x=y",
        ),
        ("NAME   AGE\na      <unknown>", "NAME   AGE\na      <unknown>"),
        ("NAME   DATA\na      3s", "NAME   DATA\na      3s"),
        (
            "NAME   AGE\na      3s\n\nNAME   DATA\na      3s",
            "NAME   AGE\na      <n>\n\nNAME   DATA\na      3s",
        ),
    ];
    for (given, expected) in table {
        assert_eq!(normalise("kubectl get", given, Path::new("/tmp/x")).trim_end(), expected);
    }
    let explained = "KIND: Pod\n\nDESCRIPTION:\n    Long words\n\nFIELDS:\n  spec\t<PodSpec>\n    Words\n    enum: A, B\n";
    let structure = "KIND: Pod\n\nDESCRIPTION:\n\nFIELDS:\n  spec\t<PodSpec>\n    enum: A, B\n";
    assert_eq!(normalise("kubectl explain pod", explained, Path::new("/tmp/x")), structure);
}
