//! Each well-known string (annotation, finalizer, label, taint) stands once: in `api/src/keys.rs`.

use super::{is_test, production_lines, report, root, sources};

const KEYS: &str = "crates/api/src/keys.rs";

/// String constants of a source that look like a Kubernetes key: a domain, a slash, a name.
fn keys_in(text: &str) -> Vec<String> {
    let literals = text
        .lines()
        .filter(|line| line.contains("pub const"))
        .flat_map(|line| line.split('"').skip(1).step_by(2));
    literals.filter(|literal| literal.contains('/') && literal.contains('.')).map(String::from).collect()
}

#[test]
fn well_known_strings_stand_once() {
    let keys = std::fs::read_to_string(root().join(KEYS)).expect("the file of keys");
    let keys = keys_in(&keys);
    assert!(keys.len() > 20, "the reader of {KEYS} found only {keys:?}");
    let mut sorted = keys.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), keys.len(), "a key stands twice in {KEYS}");

    let mut wrong = Vec::new();
    // A driver knows no Kubernetes and may not depend on `api`: a key it must recognise is its own knowledge.
    let driver = |path: &std::path::Path| path.starts_with(root().join("crates/drivers"));
    let concerned = |path: &std::path::PathBuf| !path.ends_with(KEYS) && !is_test(path) && !driver(path);
    for path in sources(&root().join("crates")).into_iter().filter(concerned) {
        let text = std::fs::read_to_string(&path).expect("readable source");
        for (number, line) in production_lines(&text) {
            let quoted: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            let again = keys.iter().filter(|key| quoted.contains(&key.as_str()));
            wrong.extend(
                again.map(|key| format!("{}:{number}: \"{key}\" belongs to api::keys", path.display())),
            );
        }
    }
    report("well-known strings", wrong);
}
