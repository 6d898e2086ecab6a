//! The layer above the host's root: mount points, because on a read-only root nothing can be created later, and masks
//! over what a container must not see.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{XattrFlags, setxattr};

use super::bindings::Detached;

/// Directories that get a filesystem of their own in every container.
const FIXED: [&str; 5] = ["/proc", "/sys", "/dev", "/tmp", "/run"];

const PERMISSIONS: u32 = 0o7777;
const DIR_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
/// Nothing can be read from a mask.
const MASK_MODE: u32 = 0o000;

/// A directory that has it shows nothing of the layers below.
const OPAQUE: &str = "trusted.overlay.opaque";

/// Something of the host that a container must not see.
#[derive(Debug, Clone)]
pub(super) struct Hidden {
    pub path: PathBuf,
    pub is_dir: bool,
}

/// Fills an empty directory with everything the container mounts onto, and with masks over the hidden paths, which
/// lead through no link.
pub(super) fn fill(
    skeleton: &Path,
    hidden: &[Hidden],
    working_dir: Option<&Path>,
    bindings: &[Detached],
) -> io::Result<()> {
    for Hidden { path, is_dir } in hidden {
        hide(skeleton, path, *is_dir)?;
    }
    for dir in FIXED.map(Path::new).into_iter().chain(working_dir) {
        make_dir(skeleton, &on_host(dir, hidden))?;
    }
    for binding in bindings {
        let target = on_host(&binding.target, hidden);
        if binding.is_dir {
            make_dir(skeleton, &target)?;
        } else {
            make_file(skeleton, &target, FILE_MODE)?;
        }
    }
    Ok(())
}

fn hide(skeleton: &Path, path: &Path, is_dir: bool) -> io::Result<()> {
    let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), is_dir) else {
        return make_file(skeleton, path, MASK_MODE);
    };
    let mask = make_dir(skeleton, parent)?.join(name);
    match fs::DirBuilder::new().mode(DIR_MODE).create(&mask) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    Ok(setxattr(&mask, OPAQUE, b"y", XattrFlags::empty())?)
}

/// Where a path leads on the host, as far as it exists and is not hidden: `/var/run/x` may be `/run/x`.
fn on_host(path: &Path, hidden: &[Hidden]) -> PathBuf {
    let mut found = PathBuf::from("/");
    let mut names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    while let Some(name) = names.next() {
        match fs::canonicalize(found.join(name)) {
            Ok(real) if !hidden.iter().any(|hidden| hidden.path == found) => found = real,
            // What is below is not there for the container, so no link can lead elsewhere.
            _ => return found.join(name).join(names.collect::<PathBuf>()),
        }
    }
    found
}

/// A directory in the upper layer hides mode and owner of the one below, so it takes them over. What leads up is left
/// out: nothing is made outside the skeleton.
fn make_dir(skeleton: &Path, path: &Path) -> io::Result<PathBuf> {
    let (mut here, mut host) = (skeleton.to_path_buf(), PathBuf::from("/"));
    for name in path.components().filter(|c| matches!(c, Component::Normal(_))) {
        here.push(name);
        host.push(name);
        if here.symlink_metadata().is_ok() {
            continue;
        }
        let like = fs::metadata(&host).ok().filter(fs::Metadata::is_dir);
        let mode = like.as_ref().map_or(DIR_MODE, |host| host.mode() & PERMISSIONS);
        // No bit is masked: the umask is empty while a root is built.
        fs::DirBuilder::new().mode(mode).create(&here)?;
        if let Some(host) = like.filter(|host| (host.uid(), host.gid()) != (0, 0)) {
            chown(&here, Some(host.uid()), Some(host.gid()))?;
            fs::set_permissions(&here, Permissions::from_mode(mode))?;
        }
    }
    Ok(here)
}

/// An empty file. One that is there already stays as it is.
fn make_file(skeleton: &Path, path: &Path, mode: u32) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let file = make_dir(skeleton, path.parent().unwrap_or(Path::new("/")))?.join(name);
    match OpenOptions::new().write(true).create_new(true).mode(mode).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_inside_and_never_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let skeleton = dir.path().join("skeleton");
        fs::create_dir(&skeleton).unwrap();
        let outside = dir.path().join("outside");
        fs::write(&outside, "kept").unwrap();
        make_file(&skeleton, Path::new("/../outside"), FILE_MODE).unwrap();
        make_file(&skeleton, Path::new("/a/../../outside"), FILE_MODE).unwrap();
        assert!(make_file(&skeleton, Path::new("/a/.."), FILE_MODE).is_err());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
        fs::write(skeleton.join("there"), "kept").unwrap();
        make_file(&skeleton, Path::new("/there"), FILE_MODE).unwrap();
        assert_eq!(fs::read_to_string(skeleton.join("there")).unwrap(), "kept");
    }

    #[test]
    fn paths_lead_where_the_host_says_unless_it_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(dir.join("real/inside")).unwrap();
        std::os::unix::fs::symlink(dir.join("real"), dir.join("link")).unwrap();
        std::os::unix::fs::symlink("/usr", dir.join("real/out")).unwrap();
        let (none, hidden) = ([], [Hidden { path: dir.join("real"), is_dir: true }]);
        let table = [
            ("link/inside/new", &none[..], dir.join("real/inside/new")),
            ("link/out/new", &none[..], PathBuf::from("/usr/new")),
            ("link/out/new", &hidden[..], dir.join("real/out/new")),
            ("link", &hidden[..], dir.join("real")),
            ("new/er", &hidden[..], dir.join("new/er")),
        ];
        for (path, hidden, want) in table {
            assert_eq!(on_host(&dir.join(path), hidden), want, "{path}");
        }
    }
}
