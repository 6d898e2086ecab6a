//! How many volumes of a driver a node has, was promised and may have (reference kube-core.md 2.7).

use std::collections::{BTreeMap, BTreeSet};

use bowline_api::{Meta, ObjectKey, Pod, pod, volume};

use super::super::model::Room;
use super::super::role::Scheduler;
use super::unscheduled;
use crate::indexes;

/// Volumes by driver.
type Volumes = BTreeMap<String, BTreeSet<String>>;

impl Scheduler {
    /// Limits of a node for the drivers that a pod needs. Counting costs as much as the node has pods, so it is done
    /// only where there is a limit, which is also what keeps that number small.
    pub(super) fn rooms(&self, node: &str, pod: &Pod, brings: &Volumes) -> BTreeMap<String, Room> {
        let limits = self.limits(node, brings);
        if limits.is_empty() {
            return BTreeMap::new();
        }
        let mut used = self.used(node, pod);
        let room = |(driver, limit): (String, usize)| {
            let used = used.remove(&driver).unwrap_or_default();
            (driver, Room { limit, used })
        };
        limits.into_iter().map(room).collect()
    }

    fn limits(&self, node: &str, brings: &Volumes) -> BTreeMap<String, usize> {
        let Some(csi_node) = self.csi_nodes.named(node).filter(|_| !brings.is_empty()) else {
            return BTreeMap::new();
        };
        let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
            let count = driver.allocatable.as_ref()?.count?;
            brings
                .contains_key(&driver.name)
                .then(|| (driver.name.clone(), usize::try_from(count).unwrap_or(0)))
        };
        csi_node.spec.drivers.iter().filter_map(limit).collect()
    }

    /// Volumes of pods on the node, of pods whose claims chose it, and those that are attached to it.
    fn used(&self, node: &str, this: &Pod) -> Volumes {
        let mut used = Volumes::new();
        let promised = self.assumed.pods(node).into_iter().filter_map(|key| self.pods.get(&key));
        let promised = promised.filter(|pod| pod.uid() != this.uid() && unscheduled(pod));
        for user in self.pods.indexed(indexes::LIVE_PODS_BY_NODE, node).into_iter().chain(promised) {
            for (driver, volumes) in self.volumes_of(&user) {
                used.entry(driver).or_default().extend(volumes);
            }
        }
        for attachment in self.attachments.indexed(indexes::ATTACHMENTS_ON_NODE, node) {
            let name = volume::attachment_volume(&attachment).unwrap_or_default();
            if let Some(source) = self.volumes.named(name).as_deref().and_then(volume::csi) {
                used.entry(source.driver.clone()).or_default().insert(source.volume_handle.clone());
            }
        }
        used
    }

    /// CSI volumes of a pod by driver; one that is still to be made counts under its claim.
    pub(in super::super) fn volumes_of(&self, pod: &Pod) -> Volumes {
        let mut found = Volumes::new();
        for (_, name) in pod::claims(pod) {
            let key = ObjectKey::new(pod.namespace(), name);
            if let Some((driver, id)) = self.volume_of(&key) {
                found.entry(driver).or_default().insert(id);
            }
        }
        found
    }

    fn volume_of(&self, claim: &ObjectKey) -> Option<(String, String)> {
        let object = self.claims.get(claim)?;
        match volume::claim_volume(&object) {
            "" => {
                let class = self.classes.named(volume::claim_class(&object)?)?;
                Some((class.provisioner.clone(), format!("claim {claim}")))
            }
            name => {
                let volume = self.volumes.named(name)?;
                volume::csi(&volume).map(|source| (source.driver.clone(), source.volume_handle.clone()))
            }
        }
    }
}
