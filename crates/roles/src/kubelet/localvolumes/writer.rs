//! Files that change as a whole (LOCAL-1), in upstream's layout:
//!
//! ```text
//! token        -> ..data/token
//! ..data       -> ..2026_11_15_19_00_00.1234567890
//! ..2026_11_15_19_00_00.1234567890/token
//! ```
//!
//! New files are written into a new directory; then one rename of the link `..data` shows them all. Whatever a crash
//! leaves, the next write or the end of the volume removes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use bowline_host::Host;
use bowline_host::disk::{GroupChange, GroupGrant, Kind, Walk};

use super::payload::Payload;

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";
/// Begins the names that are the writer's own.
const OWN: &str = "..";
const STAMP: &str = "%Y_%m_%d_%H_%M_%S";
/// As many digits as upstream's.
const NUMBER_END: u64 = 10_000_000_000;
const DIRECTORY_MODE: u32 = 0o755;

/// Makes `directory` hold these files and nothing else. New files belong to the pod's group before they show.
pub async fn write(host: &Host, directory: &Path, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    let payload = &cleaned(payload)?;
    let current = match current(host, directory).await? {
        Some(current) if same(host, &directory.join(&current), payload).await? => current,
        _ => replace(host, directory, payload, group).await?,
    };
    host.failpoints.hit("kubelet.write.shown");
    let visible: BTreeSet<String> = payload.keys().filter_map(|path| first_part(path)).collect();
    for name in &visible {
        let link = directory.join(name);
        if host.disk.kind(&link).await?.is_none() {
            host.disk.symlink(&Path::new(DATA).join(name), &link).await?;
        }
    }
    host.failpoints.hit("kubelet.write.names-linked");
    for name in host.disk.list(directory).await? {
        let kept =
            if name.starts_with(OWN) { name == DATA || name == current } else { visible.contains(&name) };
        if kept {
            continue;
        }
        let path = directory.join(&name);
        match host.disk.kind(&path).await? {
            Some(Kind::Dir) => host.disk.remove_tree(&path).await?,
            _ => host.disk.remove_file(&path).await?,
        }
    }
    Ok(())
}

/// Writes a new directory and shows it. Returns its name.
async fn replace(host: &Host, directory: &Path, payload: &Payload, group: Option<u32>) -> io::Result<String> {
    let now = host.clock.now().strftime(STAMP);
    let name = format!("{OWN}{now}.{:010}", host.random.next_u64() % NUMBER_END);
    let shown = async {
        fill(host, &directory.join(&name), payload).await?;
        host.failpoints.hit("kubelet.write.filled");
        if let Some(gid) = group {
            let grant = GroupGrant { gid, change: GroupChange::Always, read_only: true };
            host.disk.give_to_group(&directory.join(&name), grant, &Walk::default()).await?;
        }
        let next = directory.join(DATA_NEXT);
        host.disk.remove_file(&next).await?;
        host.disk.symlink(Path::new(&name), &next).await?;
        host.failpoints.hit("kubelet.write.linked");
        host.disk.rename(&next, &directory.join(DATA)).await
    };
    if let Err(error) = shown.await {
        // As long as writing fails, nothing else would remove it, and each try would leave one more. It may be shown, though,
        // if only the answer was lost.
        if current(host, directory).await.is_ok_and(|shown| shown.as_ref() != Some(&name)) {
            // Should this fail, too, then the next write that succeeds removes it.
            let _ = host.disk.remove_tree(&directory.join(&name)).await;
        }
        return Err(error);
    }
    Ok(name)
}

async fn fill(host: &Host, fresh: &Path, payload: &Payload) -> io::Result<()> {
    host.disk.create_dir_all(fresh, DIRECTORY_MODE).await?;
    for (path, file) in payload {
        let path = fresh.join(path);
        if let Some(parent) = path.parent().filter(|parent| *parent != fresh) {
            host.disk.create_dir_all(parent, DIRECTORY_MODE).await?;
        }
        host.disk.write_atomic(&path, &file.content, file.mode).await?;
    }
    Ok(())
}

/// The directory that is shown now, if there is one.
async fn current(host: &Host, directory: &Path) -> io::Result<Option<String>> {
    let link = directory.join(DATA);
    if host.disk.kind(&link).await? != Some(Kind::Symlink) {
        return Ok(None);
    }
    match host.disk.canonical(&link).await {
        Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a directory holds these files and no others.
async fn same(host: &Host, directory: &Path, payload: &Payload) -> io::Result<bool> {
    let (mut pending, mut files) = (vec![PathBuf::new()], 0);
    while let Some(inner) = pending.pop() {
        for name in host.disk.list(&directory.join(&inner)).await? {
            let path = inner.join(name);
            match host.disk.kind(&directory.join(&path)).await? {
                Some(Kind::Dir) => pending.push(path),
                _ => match payload.get(path.to_string_lossy().as_ref()) {
                    Some(file) if host.disk.read(&directory.join(&path)).await? == file.content => files += 1,
                    _ => return Ok(false),
                },
            }
        }
    }
    Ok(files == payload.len())
}

fn first_part(path: &str) -> Option<String> {
    Path::new(path).components().next().map(|part| part.as_os_str().to_string_lossy().into_owned())
}

/// The same files by the shortest forms of their paths. Of two that turn out to be one, the last by name stays.
fn cleaned(payload: &Payload) -> io::Result<Payload> {
    payload.iter().map(|(path, file)| Ok((clean(path)?, file.clone()))).collect()
}

/// A path without `.`, doubled slashes and one at its end, as upstream's writer has it: the API server lets them through.
/// No file may land outside the volume, or where the writer's own names are; those paths it refuses, too.
fn clean(path: &str) -> io::Result<String> {
    let parts = || Path::new(path).components().filter(|part| *part != Component::CurDir);
    let inside = parts().all(|part| matches!(part, Component::Normal(_)));
    let clean = parts().collect::<PathBuf>().to_string_lossy().into_owned();
    if inside && !clean.is_empty() && !clean.starts_with(OWN) {
        return Ok(clean);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid path of a file in a volume: {path:?}")))
}
