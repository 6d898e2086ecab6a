//! The container's root before anything is mounted on it: mount points, because on a read-only root nothing can be
//! created later, links as the host has them, and masks over what a container must not see. It is also the layer above
//! the host's directories of programs, which get their mount points and masks from it.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{XattrFlags, setxattr};

use super::bindings::Detached;
use super::masks;

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

/// Directories of the host that a container sees.
pub(super) fn shown() -> Vec<&'static Path> {
    let is_dir = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    masks::SHOWN.map(Path::new).into_iter().filter(is_dir).collect()
}

/// Fills an empty directory with everything the container mounts onto, and with masks over the hidden paths, which
/// lead through no link.
pub(super) fn fill(
    skeleton: &Path,
    (shown, hidden): (&[&Path], &[Hidden]),
    working_dir: Option<&Path>,
    bindings: &[Detached],
) -> io::Result<()> {
    for dir in FIXED.map(Path::new).iter().chain(shown) {
        make_dir(skeleton, dir)?;
    }
    for Hidden { path, is_dir } in hidden {
        hide(skeleton, path, *is_dir)?;
    }
    let shows = |dir: &Path| {
        let listed =
            masks::LINKED.map(Path::new).contains(&dir) || shown.iter().any(|own| dir.starts_with(own));
        listed && !hidden.iter().any(|hidden| hidden.path == dir)
    };
    if let Some(dir) = working_dir {
        make_dir(skeleton, &on_host(dir, shows))?;
    }
    for binding in bindings {
        let target = on_host(&binding.target, shows);
        if binding.is_dir {
            make_dir(skeleton, &target)?;
        } else {
            make_file(skeleton, &target, FILE_MODE)?;
        }
    }
    masks::LINKED.map(Path::new).into_iter().try_for_each(|dir| copy_links(skeleton, dir))
}

/// Last, so that nothing is made through a link: from here it would lead around on the host. A name that is taken, by a
/// mount point behind a link that leads nowhere, stays what it is. Nothing is looked at but the directory: what is mounted
/// there may not answer.
fn copy_links(skeleton: &Path, dir: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let here = make_dir(skeleton, dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_symlink() {
            continue;
        }
        let target = match fs::read_link(entry.path()) {
            // It has gone, or has become something else, since the directory was listed.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
                continue;
            }
            target => target?,
        };
        match symlink(target, here.join(entry.file_name())) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
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

/// Where a path leads on the host, as far as a container is shown the directories on the way: `/var/run/x` may be `/run/x`.
fn on_host(path: &Path, shows: impl Fn(&Path) -> bool) -> PathBuf {
    let mut found = PathBuf::from("/");
    let mut names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    while let Some(name) = names.next() {
        let next = found.join(name);
        let own = FIXED.map(Path::new).contains(&next.as_path());
        match fs::canonicalize(&next) {
            Ok(real) if shows(&found) && !own => found = real,
            // What is below is not there for the container, so no link can lead elsewhere.
            _ => return next.join(names.collect::<PathBuf>()),
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
        // Not below `/tmp`, which containers have to themselves.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(dir.join("real/inside")).unwrap();
        symlink(dir.join("real"), dir.join("link")).unwrap();
        symlink("/usr", dir.join("real/out")).unwrap();
        symlink("/nowhere", dir.join("dangling")).unwrap();
        let (none, hidden) = (PathBuf::from("/none"), dir.join("real"));
        let table = [
            ("link/inside/new", &none, dir.join("real/inside/new")),
            ("link/out/new", &none, PathBuf::from("/usr/new")),
            ("link/out/new", &hidden, dir.join("real/out/new")),
            ("link", &hidden, dir.join("real")),
            ("new/er", &hidden, dir.join("new/er")),
            ("dangling/new", &none, dir.join("dangling/new")),
        ];
        for (path, hidden, want) in table {
            assert_eq!(on_host(&dir.join(path), |shown| shown != hidden), want, "{path}");
        }
        assert_eq!(on_host(Path::new("/run/a/../b"), |_| true), Path::new("/run/a/b"), "a container's own");
    }

    #[test]
    fn links_are_copied_last_and_replace_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let (host, skeleton) = (scratch.path().join("host"), scratch.path().join("skeleton"));
        fs::create_dir_all(host.join("kept")).unwrap();
        fs::create_dir(&skeleton).unwrap();
        symlink("usr/bin", host.join("bin")).unwrap();
        symlink("/nowhere", host.join("taken")).unwrap();
        let inside = make_dir(&skeleton, &host).unwrap();
        fs::create_dir(inside.join("taken")).unwrap();
        copy_links(&skeleton, &host).unwrap();
        assert_eq!(fs::read_link(inside.join("bin")).unwrap(), Path::new("usr/bin"));
        assert!(inside.join("taken").is_dir() && !inside.join("kept").exists());
    }
}
