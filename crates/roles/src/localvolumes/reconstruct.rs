//! What an earlier process left on this machine. All of it is uncertain: directories do not say what is in them.

use std::path::Path;

use bowline_host::Host;
use bowline_machinery::RunError;

use super::memory::Memory;
use super::plan::Plugin;
use super::view::volumes;

/// Fills the memory from the directories of pods.
pub async fn reconstruct(host: &Host, kubelet_dir: &Path, memory: &Memory) -> Result<(), RunError> {
    let list = async |path: &Path| {
        host.disk.list(path).await.map_err(|source| RunError::Io {
            what: "look for volumes of an earlier process in",
            path: path.display().to_string(),
            source,
        })
    };
    for uid in list(&kubelet_dir.join("pods")).await? {
        for plugin in Plugin::ALL {
            for name in list(&volumes(kubelet_dir, &uid).join(plugin.directory())).await? {
                memory.found(&uid, &name, plugin);
            }
        }
    }
    Ok(())
}
