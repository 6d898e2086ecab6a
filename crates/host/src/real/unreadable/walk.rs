//! What other users may not read in a directory tree.

use std::fs::{self, FileType, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::real::masks;

const OTHERS_READ: u32 = 0o004;
const OTHERS_ENTER: u32 = 0o001;
/// Each path takes time at each start. A directory with more than this of them is left out as a whole.
const EACH_MAX: usize = 16;
/// Unless it also holds what others may run or enter: without programs a container can do nothing.
const BESIDE_PROGRAMS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Private {
    pub paths: Vec<PathBuf>,
    /// Of these, the directories that others may enter: they hold too much that others may not read.
    pub whole: Vec<PathBuf>,
}

/// What other users may not read in a tree. A directory that others may not enter counts as a whole, and so does what is
/// mounted in the tree.
pub(super) fn walk(tree: &Path) -> Private {
    let mut private = Private::default();
    let Ok(top) = fs::metadata(tree) else { return private };
    let found = &mut private.paths;
    let mut pending = vec![tree.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let (before, mut programs) = (found.len(), false);
        let masked = masks::DIRECTORIES.iter().map(Path::new).filter(|masked| masked.parent() == Some(&dir));
        let masked: Vec<_> = masked.filter_map(Path::file_name).collect();
        // What vanishes meanwhile, or cannot be read by us either, is in no container's way.
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if masked.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            let verdict = verdict(metadata.file_type(), &metadata);
            programs |=
                verdict != Verdict::Hide && !metadata.is_symlink() && metadata.mode() & OTHERS_ENTER != 0;
            match verdict {
                Verdict::Hide => found.push(entry.path()),
                Verdict::Enter if metadata.dev() == top.dev() => pending.push(entry.path()),
                // Another filesystem, which may be a slow one: nothing of it is looked at, so nothing is shown.
                Verdict::Enter => found.push(entry.path()),
                Verdict::Show => {}
            }
        }
        let most = if programs { BESIDE_PROGRAMS_MAX } else { EACH_MAX };
        if found.len() - before > most && dir != tree {
            found.truncate(before);
            pending.retain(|path| !path.starts_with(&dir));
            found.push(dir.clone());
            private.whole.push(dir);
        }
    }
    private
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Hide,
    Enter,
    Show,
}

fn verdict(kind: FileType, metadata: &Metadata) -> Verdict {
    let may = |bit: u32| metadata.mode() & bit != 0;
    match () {
        () if kind.is_dir() && may(OTHERS_ENTER) => Verdict::Enter,
        () if kind.is_dir() => Verdict::Hide,
        // Others may run it, so what it holds is no secret.
        () if kind.is_file() && !may(OTHERS_READ | OTHERS_ENTER) => Verdict::Hide,
        // Their owner serves who connects, and takes a container's root for its own.
        () if kind.is_socket() || kind.is_fifo() => Verdict::Hide,
        // Links lead to what is shown or hidden by itself; nodes of devices cannot be opened.
        () => Verdict::Show,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_not_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("shown", 0o644),
            ("hidden", 0o640),
            ("sudo", 0o4111),
            ("open/hidden", 0o600),
            ("closed/shown", 0o644),
            ("unlisted/hidden", 0o600),
        ];
        let dirs = [
            ("open", 0o755),
            ("closed", 0o750),
            ("unlisted", 0o711),
            ("many", 0o755),
            ("programs", 0o755),
            ("full", 0o755),
        ];
        for (name, _) in dirs {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let private = |dir: &'static str, count: usize| {
            (0..count).map(move |number| (format!("{dir}/{number}"), 0o600))
        };
        let many = private("many", EACH_MAX + 1).chain(private("programs", EACH_MAX + 1));
        let many = many.chain(private("full", BESIDE_PROGRAMS_MAX + 1));
        let many = many.chain(["programs/run", "full/run"].map(|name| (name.to_owned(), 0o755)));
        for (name, mode) in files.map(|(name, mode)| (name.to_owned(), mode)).into_iter().chain(many) {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        for (name, mode) in dirs {
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink("hidden", dir.path().join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        fs::set_permissions(dir.path().join("socket"), Permissions::from_mode(0o666)).unwrap();
        let private = walk(dir.path());
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let name = |path: &PathBuf| path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
            let mut names: Vec<String> = paths.iter().map(name).collect();
            names.sort();
            names
        };
        let (each, others): (Vec<_>, Vec<_>) =
            names(&private.paths).into_iter().partition(|name| name.starts_with("programs"));
        assert_eq!(others, ["closed", "full", "hidden", "many", "open/hidden", "socket", "unlisted/hidden"]);
        assert_eq!(each.len(), EACH_MAX + 1, "one by one, and the programs stay: {each:?}");
        assert_eq!(names(&private.whole), ["full", "many"]);
        assert!(walk(Path::new("/no/such/tree")).paths.is_empty());
        let mounts = walk(Path::new("/dev")).paths;
        assert!(mounts.contains(&PathBuf::from("/dev/pts")), "another filesystem in a tree: {mounts:?}");
    }
}
