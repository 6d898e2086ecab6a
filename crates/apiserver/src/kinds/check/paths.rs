//! Paths in a container or on a node.

use crate::field::Invalid;

/// Whether a path climbs with `..`.
pub fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

pub fn no_backsteps(field: &str, path: &str) -> Option<Invalid> {
    climbs(path).then(|| Invalid::invalid(field, path, "must not contain '..'"))
}

/// A path that stays below where it starts.
pub fn descending(field: &str, path: &str) -> Vec<Invalid> {
    let absolute = path.starts_with('/').then(|| Invalid::invalid(field, path, "must be a relative path"));
    absolute.into_iter().chain(no_backsteps(field, path)).collect()
}

/// A path of a file in a volume. What begins with two dots belongs to the kubelet.
pub fn file(field: &str, path: &str) -> Vec<Invalid> {
    let mut errors = descending(field, path);
    if path.starts_with("..") && !path.starts_with("../") && !climbs(path) {
        errors.push(Invalid::invalid(field, path, "must not start with '..'"));
    }
    errors
}

/// A path that must be there and may not climb.
pub fn required(field: &str, path: &str) -> Option<Invalid> {
    if path.is_empty() { Some(Invalid::required(field, "")) } else { no_backsteps(field, path) }
}
