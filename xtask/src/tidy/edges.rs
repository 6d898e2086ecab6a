//! Which crate may depend on which (DESIGN: the cut).

use super::{report, root};

const ALLOWED: [(&str, &[&str]); 9] = [
    ("api", &[]),
    ("proto", &[]),
    ("host", &[]),
    ("machinery", &["api", "proto", "host"]),
    ("apiserver", &["api", "proto", "host"]),
    ("roles", &["api", "proto", "host", "machinery"]),
    ("drivers", &["proto", "host"]),
    ("sim", &["api", "proto", "host", "machinery", "apiserver", "roles", "drivers"]),
    ("bowline", &["api", "proto", "host", "machinery", "apiserver", "roles", "drivers", "sim"]),
];

/// Names of workspace crates in the `[dependencies]` section of a manifest.
fn edges_of(manifest: &str) -> Vec<String> {
    let section =
        manifest.split("\n[").find(|part| part.trim_start_matches('[').starts_with("dependencies]"));
    let names = section.into_iter().flat_map(str::lines).filter_map(|line| line.strip_prefix("bowline-"));
    names.map(|rest| rest.split(['.', ' ', '=']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn crates_depend_in_one_direction() {
    let mut wrong = Vec::new();
    let folders = std::fs::read_dir(root().join("crates")).expect("crates folder");
    for folder in folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = folder.file_name().expect("folder name").to_string_lossy().into_owned();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!(
                "crate `{name}` is not in the table: decide where it stands, and write an ADR"
            ));
            continue;
        };
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("manifest");
        let bad = edges_of(&manifest).into_iter().filter(|edge| !allowed.contains(&edge.as_str()));
        wrong.extend(bad.map(|edge| format!("`{name}` may not depend on `{edge}`")));
    }
    report("dependency direction", wrong);
}

#[test]
fn a_wrong_edge_is_seen() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nbowline-api.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\nbowline-sim.workspace = true\n";
    assert_eq!(edges_of(manifest), ["api"]);
}
