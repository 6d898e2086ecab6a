//! Objects that people delete although others need them.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, Node, PersistentVolume, StorageClass, keys, volume};

use super::Workload;
use crate::cluster::{CLASS_AT_ONCE, CLASS_LATE, CLASS_RETAIN, Cluster, NODES, delete, node_name};

/// How long a class is missing at most.
const MISSING: u64 = 20_000;

impl Workload {
    /// `kubectl delete pv`: its finalizers keep it as long as a claim has it. One whose provisioner has not put its own
    /// finalizer on it yet would leave its backend volume behind, as upstream's does.
    pub(super) async fn delete_volume(&mut self, cluster: &Cluster) {
        let guarded = |found: &&Arc<PersistentVolume>| {
            volume::reclaim_policy(found) == volume::RETAIN
                || found.has_finalizer(keys::PROVISIONER_FINALIZER)
        };
        let volumes: Vec<Arc<PersistentVolume>> =
            cluster.shared.oracle().volumes.values().filter(guarded).cloned().collect();
        if volumes.is_empty() {
            return;
        }
        let volume = volumes[self.below(volumes.len() as u64) as usize].clone();
        cluster.shared.say(format_args!("person deletes volume {}", volume.name()));
        delete(&cluster.person(), volume.as_ref(), None).await;
    }

    /// The class goes and comes back as another object.
    pub(super) async fn delete_class(&mut self, cluster: &Arc<Cluster>) {
        let name = self.one(&[CLASS_LATE, CLASS_AT_ONCE, CLASS_RETAIN]);
        let person = cluster.person();
        let Ok(Some(class)) = person.get_live::<StorageClass>("", name).await else { return };
        cluster.shared.say(format_args!("person deletes class {name}"));
        delete(&person, &class, None).await;
        let missing = Duration::from_millis(self.below(MISSING));
        tokio::spawn(async move {
            tokio::time::sleep(missing).await;
            let mut again = class;
            (again.metadata.uid, again.metadata.resource_version) = (None, None);
            let _ = person.create(&again).await;
        });
    }

    /// `kubectl delete node` while its kubelet runs.
    pub(super) async fn delete_node(&mut self, cluster: &Cluster) {
        let name = node_name(self.below(NODES as u64) as usize);
        let person = cluster.person();
        let Ok(Some(node)) = person.get_live::<Node>("", &name).await else { return };
        cluster.shared.say(format_args!("person deletes node {name}"));
        delete(&person, &node, None).await;
    }
}
