//! Removes what is left of a pod on disk, and nothing else.

use bowline_api::keys;
use bowline_machinery::effect::EffectError;

use super::act::Pods;
use super::spec;
use super::world::Observed;
use crate::localvolumes::Plugin;

impl Pods {
    /// Volumes have removed themselves: only empty directories go, never what is in them. Logs go whole, and first: after
    /// a crash the directory still tells of the pod.
    pub(super) async fn clean_directory(&self, seen: &Observed) -> Result<(), EffectError> {
        let root = self.config.kubelet_dir.join("pods").join(&seen.uid);
        let clean = async {
            let disk = &self.ports.host.disk;
            for name in disk.list(&self.config.log_dir).await? {
                if spec::pod_of_logs(&name) == Some(&seen.uid) {
                    disk.remove_tree(&self.config.log_dir.join(name)).await?;
                }
            }
            for plugin in Plugin::ALL {
                disk.remove_dir(&root.join("volumes").join(plugin.directory())).await?;
            }
            for kind in ["volumes", "volumeDevices"] {
                disk.remove_dir(&root.join(kind).join(keys::CSI_PLUGIN_ESCAPED)).await?;
                disk.remove_dir(&root.join(kind)).await?;
            }
            disk.remove_dir(&root).await
        };
        self.on_disk("remove", &root, clean).await
    }
}
