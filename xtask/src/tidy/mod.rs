//! House rules that a machine can check (CONTRIBUTING.md says why each exists).

mod decide;
mod edges;
mod length;
mod observe;
mod strings;

use std::path::{Path, PathBuf};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the workspace").to_owned()
}

/// Every Rust source below a folder, sorted.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Test code: files and folders of tests, examples, and the simulator.
fn is_test(path: &Path) -> bool {
    let text = path.to_string_lossy();
    ["/tests/", "/tests.rs", "/examples/", "/sim/", "/xtask/"].iter().any(|part| text.contains(part))
}

/// Production lines of a file: what stands before its inline test module, without comments.
fn production_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let before_tests = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    before_tests
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(n, line)| (n + 1, line))
}

/// Fails with every finding at once.
fn report(rule: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}
