//! What decides is pure: no async, clock, randomness, logging, I/O or hash order.

use std::path::Path;

use super::{is_test, production_lines, report, root, sources};

/// Files and folders that decide, or make what a decision is or writes, under other names than `decide` and `model`.
const DECIDING: [&str; 6] = [
    "crates/roles/src/kubelet/pods/spec",
    "crates/roles/src/kubelet/pods/status.rs",
    "crates/roles/src/kubelet/nodestatus/object.rs",
    "crates/roles/src/kubelet/localvolumes/plan.rs",
    "crates/roles/src/sidecars/external_provisioner/intent.rs",
    "crates/machinery/src/lease/decide.rs",
];

/// Plain data of `host` that a decision may hold; the doors themselves are not in there.
const DATA: &str = "bowline_host::containers::";
const DOORS: [&str; 2] = ["Containers,", "Containers}"];

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
        let data = line.contains(DATA) && !DOORS.iter().any(|door| line.contains(door));
        let found = IMPURE.into_iter().find(|word| line.contains(word) && !(data && *word == "bowline_host"));
        found.map(|word| (number, word))
    };
    production_lines(text).filter_map(in_line).collect()
}

#[test]
fn decisions_are_pure() {
    let mut wrong = Vec::new();
    for path in sources(&root().join("crates")) {
        let text = std::fs::read_to_string(&path).expect("readable source");
        if decides(&path) || says_so(&text) {
            wrong.extend(
                impurities(&text).iter().map(|(line, word)| format!("{}:{line}: `{word}`", path.display())),
            );
        }
    }
    report("purity of what decides", wrong);
}

fn decides(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name == "decide.rs" || name == "model.rs");
    let within = path.parent().is_some_and(|folder| folder.ends_with("decide"));
    let listed = path.strip_prefix(root()).is_ok_and(|path| DECIDING.iter().any(|of| path.starts_with(of)));
    (named || within || listed) && !is_test(path)
}

/// Whether the file says at its head that it is pure.
fn says_so(text: &str) -> bool {
    text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.ends_with(" Pure."))
}

/// A file that moved would otherwise go unchecked without a word.
#[test]
fn what_is_listed_is_there() {
    let gone = DECIDING.iter().filter(|path| !root().join(path).exists());
    report("deciding files that are not there", gone.map(|path| (*path).to_owned()).collect());
}

#[test]
fn plain_data_of_the_host_is_no_door() {
    assert_eq!(impurities("use bowline_host::containers::{Exit, State};\n"), []);
    let door = "use bowline_host::containers::{Containers, State};\n";
    assert_eq!(impurities(door), [(1, "bowline_host")]);
    assert_eq!(impurities("use bowline_host::Host;\n"), [(1, "bowline_host")]);
}

#[test]
fn a_file_is_held_to_its_word() {
    assert!(says_so("//! When a container is probed. Pure.\n\nuse x;\n"));
    assert!(!says_so("//! The runner.\n\n// Pure.\n"));
}

#[test]
fn an_impure_line_is_seen() {
    assert_eq!(impurities("// tokio is fine in a comment\nlet now = Instant::now();\n"), [(2, "Instant")]);
}
