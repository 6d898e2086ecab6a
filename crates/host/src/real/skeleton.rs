//! The layer above the host's root that holds mount points: on a read-only root nothing can be created later.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};

use crate::containers::ContainerSpec;

/// Directories that get a filesystem of their own in every container.
pub(super) const FIXED: [&str; 5] = ["/proc", "/sys", "/dev", "/tmp", "/run"];

const DIR_MODE: u32 = 0o755;

/// Fills an empty directory with everything the container mounts onto.
pub(super) fn fill(skeleton: &Path, spec: &ContainerSpec) -> io::Result<()> {
    for dir in FIXED.map(Path::new).into_iter().chain(spec.working_dir.as_deref()) {
        make_dir(skeleton, &on_host(dir))?;
    }
    for binding in spec.mounts.iter().chain(&spec.devices) {
        let target = on_host(&binding.target);
        if binding.source.is_dir() {
            make_dir(skeleton, &target)?;
        } else {
            make_file(skeleton, &target)?;
        }
    }
    Ok(())
}

/// Where a path leads on the host, as far as it exists: `/var/run/x` may be `/run/x`.
fn on_host(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(ancestor), path.strip_prefix(ancestor)) {
            return real.join(rest);
        }
    }
    path.to_path_buf()
}

/// A directory in the upper layer hides mode and owner of the one below, so it takes them over.
fn make_dir(skeleton: &Path, path: &Path) -> io::Result<()> {
    let (mut here, mut host) = (skeleton.to_path_buf(), PathBuf::from("/"));
    for name in path.components().filter(|c| matches!(c, Component::Normal(_))) {
        here.push(name);
        host.push(name);
        match fs::create_dir(&here) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        match fs::metadata(&host) {
            Ok(host) if host.is_dir() => {
                chown(&here, Some(host.uid()), Some(host.gid()))?;
                fs::set_permissions(&here, host.permissions())?;
            }
            _ => fs::set_permissions(&here, Permissions::from_mode(DIR_MODE))?,
        }
    }
    Ok(())
}

fn make_file(skeleton: &Path, path: &Path) -> io::Result<()> {
    make_dir(skeleton, path.parent().unwrap_or(Path::new("/")))?;
    let relative = path.strip_prefix("/").unwrap_or(path);
    fs::File::create(skeleton.join(relative)).map(drop)
}
