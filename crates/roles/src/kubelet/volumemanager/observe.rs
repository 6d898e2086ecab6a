//! From the caches, the memory and the table of drivers to what is decided on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{
    CSIDriver, Meta, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, name, node, pod,
    selector, volume,
};

use super::desired;
use super::memory::VolumeState;
use super::model::{AttachSeen, DriverSeen, Mode, Need, Observed, SizeSeen, Target, Want};
use super::role::Manager;
use crate::indexes::{PODS_BY_CLAIM, PODS_BY_INLINE_VOLUME, PODS_BY_UID, VOLUMES_BY_UNIQUE_NAME};

/// A publication that a pod asks for.
pub(super) struct Asked {
    pub(super) mode: Mode,
    read_only: bool,
    /// The volume's name in the pod.
    volume: String,
    pod: Arc<Pod>,
    source: Arc<PersistentVolume>,
}

impl Asked {
    pub(super) fn source(&self) -> &PersistentVolume {
        &self.source
    }
}

impl Manager {
    /// `None` when the volume is neither wanted nor here.
    pub(super) fn seen(&self, volume: &str) -> Option<Observed> {
        let asked = self.asked(volume);
        let state = self.memory.get(volume)?;
        let (driver_name, handle) = (state.driver.as_str(), state.handle.as_str());
        let now = self.ports.host.uptime.uptime();
        let csi_driver = self.csi_drivers.named(driver_name);
        let own_node = self.nodes.named(&self.node_name);
        let sources: BTreeMap<String, Arc<PersistentVolume>> =
            asked.values().map(|a| (a.source.name().to_owned(), a.source.clone())).collect();
        let reachable =
            |pv: &PersistentVolume| own_node.as_ref().is_none_or(|node| selector::volume_reachable(pv, node));
        let unreachable = sources.values().filter(|pv| !reachable(pv)).map(|pv| pv.name().to_owned());
        Some(Observed {
            volume: volume.to_owned(),
            driver_name: driver_name.to_owned(),
            handle: handle.to_owned(),
            inline: is_inline(volume),
            now,
            driver: self.driver_seen(driver_name, &state, now),
            attach: self.attach_seen(volume, csi_driver.as_deref(), own_node.as_deref()),
            may_unmount: self.tenants.counted(),
            needs: self.needs(&asked, &state),
            stages: state.stages.clone(),
            unreachable: unreachable.collect(),
            sizes: self.sizes(&sources, &state),
            pods: asked.values().map(|a| (a.pod.uid().to_owned(), a.pod.clone())).collect(),
            sources,
            csi_driver,
            reported: state.reported.clone(),
        })
    }

    fn sizes(
        &self,
        sources: &BTreeMap<String, Arc<PersistentVolume>>,
        state: &VolumeState,
    ) -> BTreeMap<String, SizeSeen> {
        let size = &state.size;
        let seen = |pv: &PersistentVolume| {
            Some(SizeSeen {
                claim: self.claim_of(pv)?,
                known: size.known,
                in_use_error: size.in_use_error,
                ended: size.ended.clone(),
                failures: size.failures,
            })
        };
        sources.iter().filter_map(|(name, pv)| Some((name.clone(), seen(pv)?))).collect()
    }

    /// The claim that a volume is bound to, as last read.
    pub(super) fn claim_of(&self, pv: &PersistentVolume) -> Option<Arc<PersistentVolumeClaim>> {
        let reference = volume::claim_ref(pv)?;
        let key = ObjectKey::new(reference.namespace.as_deref()?, reference.name.as_deref()?);
        self.claims.get(&key).filter(|claim| reference.uid.as_deref() == Some(claim.uid()))
    }

    /// Driver and handle. A volume that a pod describes itself has them there, or in the record of an earlier process.
    pub(super) fn identity(
        &self,
        unique_name: &str,
        asked: &BTreeMap<Target, Asked>,
    ) -> Option<(String, String)> {
        if let Some((driver, handle)) = name::split_unique_volume(unique_name) {
            return Some((driver.to_owned(), handle.to_owned()));
        }
        let described = asked.values().find_map(|a| volume::csi(&a.source));
        let described = described.map(|csi| (csi.driver.clone(), csi.volume_handle.clone()));
        described.or_else(|| self.memory.get(unique_name).map(|state| (state.driver, state.handle)))
    }

    /// Publications of this volume that pods of this node ask for.
    pub(super) fn asked(&self, unique_name: &str) -> BTreeMap<Target, Asked> {
        let mut asked = self.asked_inline(unique_name);
        for source in self.volumes.indexed(VOLUMES_BY_UNIQUE_NAME, unique_name) {
            let Some(claim) = volume::claim_ref(&source) else { continue };
            let (Some(namespace), Some(claim)) = (&claim.namespace, &claim.name) else { continue };
            for pod in self.pods.indexed(PODS_BY_CLAIM, &format!("{namespace}/{claim}")) {
                if pod::node_name(&pod) != self.node_name {
                    continue;
                }
                let of_claim = desired::claimed(&pod).into_iter().filter(|c| c.claim_name == *claim);
                let named = |c: desired::Claimed| Some((self.mounts.resolve(&pod, &c).ok()?, c.volume_name));
                let resolved = of_claim.filter_map(named);
                let here = |(r, _): &(desired::Resolved, String)| {
                    r.volume == unique_name && r.spec_name == source.name()
                };
                for (found, volume) in resolved.filter(here) {
                    let target = Target { pod_uid: pod.uid().to_owned(), spec_name: found.spec_name.clone() };
                    let ask = Asked {
                        mode: found.mode,
                        read_only: found.read_only,
                        volume,
                        pod: pod.clone(),
                        source: source.clone(),
                    };
                    asked.insert(target, ask);
                }
            }
        }
        asked
    }

    fn asked_inline(&self, unique_name: &str) -> BTreeMap<Target, Asked> {
        let mut asked = BTreeMap::new();
        for pod in self.pods.indexed(PODS_BY_INLINE_VOLUME, unique_name) {
            if pod::node_name(&pod) != self.node_name {
                continue;
            }
            for (volume, resolved) in desired::inline(&pod) {
                let Ok(found) = resolved else { continue };
                let Some(source) = desired::inline_source(&pod, &volume) else { continue };
                if found.volume == unique_name {
                    let target = Target { pod_uid: pod.uid().to_owned(), spec_name: found.spec_name };
                    let (mode, read_only) = (found.mode, found.read_only);
                    let ask = Asked { mode, read_only, volume, pod: pod.clone(), source: Arc::new(source) };
                    asked.insert(target, ask);
                }
            }
        }
        asked
    }

    fn needs(&self, asked: &BTreeMap<Target, Asked>, state: &VolumeState) -> BTreeMap<Target, Need> {
        let mut needs = BTreeMap::new();
        for (target, mount) in &state.mounts {
            let need = Need {
                want: self.want_of(target, asked.get(target)),
                mode: mount.mode,
                read_only: asked.get(target).is_some_and(|a| a.read_only),
                presence: mount.presence,
                failures: mount.failures,
                republish_at: mount.republish_at,
                volume: asked.get(target).map(|a| a.volume.clone()).unwrap_or_default(),
                since: mount.since,
                reported: mount.reported.clone(),
                limit_checked: mount.limit_checked,
            };
            needs.insert(target.clone(), need);
        }
        needs
    }

    pub(super) fn want_of(&self, target: &Target, ask: Option<&Asked>) -> Want {
        match ask {
            Some(ask) => self.want(ask),
            None => self.want_unasked(&target.pod_uid),
        }
    }

    pub(super) fn want(&self, ask: &Asked) -> Want {
        let ending = self.tenants.evicting() || ending(&ask.pod);
        match (ending, self.tenants.inside(ask.pod.uid())) {
            (false, _) => Want::Mounted,
            (true, true) => Want::AsItIs,
            (true, false) => Want::Gone,
        }
    }

    /// Whether the pod may still start containers, as the cache has it now.
    pub(super) fn wants(&self, pod_uid: &str) -> bool {
        let lives = self.pods.indexed(PODS_BY_UID, pod_uid).iter().any(|pod| !ending(pod));
        lives && !self.tenants.evicting()
    }

    /// The pod is gone, or its claim no longer leads here. As long as it may run, nothing is taken from it.
    fn want_unasked(&self, pod_uid: &str) -> Want {
        let kept = self.tenants.inside(pod_uid) || self.wants(pod_uid);
        if kept { Want::AsItIs } else { Want::Gone }
    }

    fn driver_seen(&self, driver: &str, state: &VolumeState, now: Duration) -> DriverSeen {
        match self.drivers.get(driver) {
            Some(driver) => DriverSeen::Registered {
                stages: driver.capabilities.stage_unstage,
                expands: driver.capabilities.expand,
            },
            None => DriverSeen::Missing { since: state.driver_missing_since.unwrap_or(now) },
        }
    }

    fn attach_seen(
        &self,
        unique_name: &str,
        csi_driver: Option<&CSIDriver>,
        own_node: Option<&Node>,
    ) -> AttachSeen {
        if is_inline(unique_name) || !volume::attach_required(csi_driver) {
            return AttachSeen::NotRequired;
        }
        if !self.in_use.contains(unique_name) {
            return AttachSeen::NotListed;
        }
        if !self.in_use.accepted(unique_name) {
            return AttachSeen::NotAccepted;
        }
        match own_node.is_some_and(|n| node::volumes_attached(n).contains(&unique_name)) {
            true => AttachSeen::Attached,
            false => AttachSeen::NotInNodeStatus,
        }
    }

    /// What holds a place in `volumesInUse`: everything attachable that is wanted or may be here.
    pub(super) fn attachable(&self, unique_name: &str, driver: &str) -> bool {
        !is_inline(unique_name) && volume::attach_required(self.csi_drivers.named(driver).as_deref())
    }
}

/// Whether a pod describes the volume itself: other names hold driver and handle.
pub(super) fn is_inline(unique_name: &str) -> bool {
    name::split_unique_volume(unique_name).is_none()
}

/// The pod will start no container any more.
fn ending(pod: &Pod) -> bool {
    pod.deleting() || matches!(pod::phase(pod), "Failed" | "Succeeded")
}
