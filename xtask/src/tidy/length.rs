//! Files stay small: aim at 150 lines; a file over the limit sees, decides and does in one place.

use super::{report, root, sources};

const LINES_MAX: usize = 600;

#[test]
fn files_are_small() {
    let mut long = Vec::new();
    for folder in ["crates", "tests", "xtask"] {
        for path in sources(&root().join(folder)) {
            let lines = std::fs::read_to_string(&path).expect("readable source").lines().count();
            if lines > LINES_MAX {
                long.push(format!("{}: {lines} lines, at most {LINES_MAX}", path.display()));
            }
        }
    }
    report("file length", long);
}

#[test]
fn there_is_no_drawer_for_odds_and_ends() {
    let drawers = ["utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs"];
    let named = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| drawers.contains(&name.to_string_lossy().as_ref()))
    };
    let found = sources(&root().join("crates")).into_iter().filter(named);
    report("a module that is missing its name", found.map(|p| p.display().to_string()).collect());
}
