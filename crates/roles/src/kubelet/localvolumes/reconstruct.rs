//! What an earlier process left on this machine. All of it is uncertain: directories do not say what is in them.

use std::io;
use std::path::Path;

use bowline_host::Host;
use bowline_host::disk::Kind;

use super::memory::Memory;
use super::plan::Plugin;
use super::view::volumes;

/// Fills the memory from the directories of the pods that this installation has recorded. A directory that cannot be
/// read holds up no other pod, and is not removed either.
pub async fn reconstruct(host: &Host, kubelet_dir: &Path, pods: &[String], memory: &Memory) {
    for uid in pods {
        for plugin in Plugin::ALL {
            let dir = volumes(kubelet_dir, uid).join(plugin.directory());
            match directories(host, &dir).await {
                Ok(names) => names.iter().for_each(|name| memory.found(uid, name, plugin)),
                Err(error) => {
                    tracing::error!(dir = %dir.display(), %error, "cannot look for volumes of an earlier process");
                }
            }
        }
    }
}

/// A file among them is no volume: it stays, and is reported when the pod's directory is removed.
async fn directories(host: &Host, dir: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    if host.disk.kind(dir).await? != Some(Kind::Dir) {
        return Ok(found);
    }
    for name in host.disk.list(dir).await? {
        if host.disk.kind(&dir.join(&name)).await? == Some(Kind::Dir) {
            found.push(name);
        }
    }
    Ok(found)
}
