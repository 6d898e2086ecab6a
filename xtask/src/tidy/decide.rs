//! `decide.rs` is pure: no async, clock, randomness, logging, I/O or hash order.

use super::{production_lines, report, root, sources};

const IMPURE: [&str; 14] = [
    "async ",
    ".await",
    "tokio",
    "Instant",
    "SystemTime",
    "Timestamp::now",
    "tracing",
    "HashMap",
    "HashSet",
    "rand",
    "std::fs",
    "std::env",
    "bowline_host",
    "kube::",
];

fn impurities(text: &str) -> Vec<(usize, &'static str)> {
    let in_line = |(number, line): (usize, &str)| {
        let found = IMPURE.into_iter().find(|word| line.contains(word));
        found.map(|word| (number, word))
    };
    production_lines(text).filter_map(in_line).collect()
}

#[test]
fn decisions_are_pure() {
    let mut wrong = Vec::new();
    for path in sources(&root().join("crates")) {
        let decides = path.file_name().is_some_and(|name| name == "decide.rs")
            || path.parent().is_some_and(|folder| folder.ends_with("decide"));
        if decides {
            let text = std::fs::read_to_string(&path).expect("readable source");
            wrong.extend(
                impurities(&text).iter().map(|(line, word)| format!("{}:{line}: `{word}`", path.display())),
            );
        }
    }
    report("purity of decide.rs", wrong);
}

#[test]
fn an_impure_line_is_seen() {
    assert_eq!(impurities("// tokio is fine in a comment\nlet now = Instant::now();\n"), [(2, "Instant")]);
}
