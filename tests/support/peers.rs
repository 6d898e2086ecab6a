//! Programs and files of upstream that `make` brings into `.peers`.

use std::path::PathBuf;

/// `$KUBE_SCHEDULER` for `kube-scheduler` and the like, or what `make` built under this name and its version. Missing is
/// a failure, never a skip.
pub fn peer(name: &str) -> PathBuf {
    let variable = name.to_uppercase().replace('-', "_");
    if let Some(path) = std::env::var_os(&variable) {
        return path.into();
    }
    let peers = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.peers"));
    let prefix = format!("{name}-v");
    let built = std::fs::read_dir(&peers).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix))
    };
    let found = built.filter(is_it).max();
    found.unwrap_or_else(|| panic!("no {name}: run `make peers`, which brings it, or set {variable}"))
}
