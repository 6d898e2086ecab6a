//! What becomes of a volume when its claim is gone: people change the policy, and use again what was kept.

use std::sync::Arc;

use bowline_api::{Meta, ObjectKey, PersistentVolume, build, keys, volume};
use bowline_machinery::effect::Part;
use serde_json::json;
use tokio::time::Instant;

use super::Workload;
use super::claims::{FREE, LOOK};
use crate::cluster::{Cluster, delete};

impl Workload {
    fn one_volume(
        &mut self,
        cluster: &Cluster,
        fits: impl Fn(&PersistentVolume) -> bool,
    ) -> Option<Arc<PersistentVolume>> {
        let oracle = cluster.shared.oracle();
        let found: Vec<Arc<PersistentVolume>> =
            oracle.volumes.values().filter(|found| fits(found)).cloned().collect();
        drop(oracle);
        (!found.is_empty()).then(|| found[self.below(found.len() as u64) as usize].clone())
    }

    /// `kubectl patch pv` of one that a claim has. Nothing is being deleted yet, so the new policy counts.
    pub(super) async fn change_policy(&mut self, cluster: &Cluster) {
        let bound =
            |found: &PersistentVolume| volume::volume_phase(found) == volume::BOUND && !found.deleting();
        let Some(found) = self.one_volume(cluster, bound) else { return };
        let policy = match volume::reclaim_policy(&found) {
            volume::DELETE => volume::RETAIN,
            _ => volume::DELETE,
        };
        // With the version, so that it does not land on one that has been released meanwhile.
        let version = &found.metadata.resource_version;
        let patch = json!({
            "metadata": {"resourceVersion": version}, "spec": {"persistentVolumeReclaimPolicy": policy},
        });
        let patched = cluster.person().patch(Part::Main, found.as_ref(), patch).await;
        let name = found.name();
        cluster.shared.say(format_args!("person sets the policy of {name} to {policy}: {}", patched.is_ok()));
    }

    /// As upstream's manual says: the released object is deleted, another one is made of the same backend volume, and a
    /// claim asks for it by name. What was written before is still there.
    pub(super) async fn reuse(&mut self, cluster: &Arc<Cluster>, name: &str) {
        let kept = |found: &PersistentVolume| {
            volume::volume_phase(found) == volume::RELEASED && volume::reclaim_policy(found) == volume::RETAIN
        };
        let Some(old) = self.one_volume(cluster, kept) else {
            return self.replace_claim(cluster, name).await;
        };
        delete(&cluster.person(), old.as_ref(), None).await;
        let begun = Instant::now();
        while cluster.shared.oracle().volumes.contains_key(&old.key()) && begun.elapsed() < FREE {
            tokio::time::sleep(LOOK).await;
        }
        if cluster.shared.oracle().volumes.contains_key(&old.key()) {
            return;
        }
        let again = static_volume(&old);
        let made = cluster.person().create(&again).await;
        cluster.shared.say(format_args!("person makes volume {}: {}", again.name(), made.is_ok()));
        self.claim_by_name(cluster, name, &again).await;
        let node = self.any_node();
        self.pod(cluster, name, node).await;
    }

    /// A claim for this volume; one that exists stays as it is.
    async fn claim_by_name(&mut self, cluster: &Cluster, name: &str, wanted: &PersistentVolume) {
        let mode = volume::volume_access_modes(wanted).first().cloned().unwrap_or_default();
        let claim = build::claim(name).class(volume::volume_class(wanted)).access_mode(&mode);
        let claim = if volume::volume_mode(wanted) == volume::BLOCK { claim.block() } else { claim };
        let mut claim = claim.build();
        claim.spec.get_or_insert_default().volume_name = Some(wanted.name().to_owned());
        let key = ObjectKey::new("default", name);
        let made = cluster.person().create(&claim).await;
        cluster.shared.say(format_args!("person creates claim {key} of {}: {}", wanted.name(), made.is_ok()));
    }
}

/// The same backend volume as an object of no provisioner's.
fn static_volume(old: &PersistentVolume) -> PersistentVolume {
    let mut again = PersistentVolume { spec: old.spec.clone(), ..PersistentVolume::default() };
    again.metadata.name = Some(format!("{}-again", old.name()));
    if let Some(spec) = &mut again.spec {
        spec.claim_ref = None;
    }
    debug_assert!(again.annotation(keys::PROVISIONED_BY).is_none());
    again
}
