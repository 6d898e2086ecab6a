//! The promises that can be seen in the objects alone, numbered as in the design: plain functions over a snapshot.
//!
//! Tests and the simulation check them; each violation says which promise, which objects and what is wrong.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, VolumeAttachment, keys, volume};

/// All objects at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    pub volumes: Vec<Arc<PersistentVolume>>,
    pub attachments: Vec<Arc<VolumeAttachment>>,
}

/// Everything that is broken, in order of the promises. Empty: all hold.
pub fn violations(seen: &Snapshot) -> Vec<String> {
    [bind_1(seen), bind_2(seen), prov_1(seen), att_1(seen), att_2(seen)].concat()
}

/// A claim and a volume are bound one to one, by UID.
fn bind_1(seen: &Snapshot) -> Vec<String> {
    let mut broken = Vec::new();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for claim in seen.claims.iter().filter(|c| volume::bound(c)) {
        let name = volume::claim_volume(claim);
        if let Some(other) = owners.insert(name, claim.name()) {
            broken.push(format!("BIND-1: claims {other} and {} are both bound to {name}", claim.name()));
        }
        let partner = seen.volumes.iter().find(|v| v.name() == name).and_then(|v| volume::claim_ref(v));
        if partner.is_some_and(|p| p.uid.as_deref() != Some(claim.uid())) {
            broken
                .push(format!("BIND-1: claim {} is bound to {name}, which belongs to another", claim.name()));
        }
    }
    broken
}

/// Mode, size, class and access modes of a bound pair agree.
fn bind_2(seen: &Snapshot) -> Vec<String> {
    let pairs = seen.claims.iter().filter(|c| volume::bound(c)).filter_map(|claim| {
        let name = volume::claim_volume(claim);
        seen.volumes.iter().find(|v| v.name() == name).map(|v| (claim, v))
    });
    let mut broken = Vec::new();
    for (claim, found) in pairs {
        let mut say =
            |what: &str| broken.push(format!("BIND-2: {what}: claim {} and {}", claim.name(), found.name()));
        if volume::claim_mode(claim) != volume::volume_mode(found) {
            say("volumeMode differs");
        }
        if volume::capacity_bytes(found).unwrap_or(0) < volume::requested_bytes(claim).unwrap_or(0) {
            say("the volume is too small");
        }
        let class = found.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        if volume::claim_class(claim).unwrap_or_default() != class.unwrap_or_default() {
            say("the class differs");
        }
        let modes = volume::volume_access_modes(found);
        if !volume::claim_access_modes(claim).iter().all(|mode| modes.contains(mode)) {
            say("an access mode is missing");
        }
    }
    broken
}

/// At most one provisioned volume per claim.
fn prov_1(seen: &Snapshot) -> Vec<String> {
    let mut made: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for found in seen.volumes.iter().filter(|v| v.annotation(keys::PROVISIONED_BY).is_some()) {
        let uid = volume::claim_ref(found).and_then(|r| r.uid.as_deref()).unwrap_or_default();
        made.entry(uid).or_default().push(found.name());
    }
    let several = made.into_iter().filter(|(uid, names)| !uid.is_empty() && names.len() > 1);
    several.map(|(uid, names)| format!("PROV-1: claim {uid} has volumes {}", names.join(", "))).collect()
}

/// What is attached is guarded by the attacher's finalizer.
fn att_1(seen: &Snapshot) -> Vec<String> {
    let bare = |a: &&Arc<VolumeAttachment>| {
        volume::attached(a) && !a.deleting() && !a.has_finalizer(&keys::attacher_finalizer(&a.spec.attacher))
    };
    let bare = seen.attachments.iter().filter(bare);
    bare.map(|a| format!("ATT-1: attachment {} is attached without a finalizer", a.name())).collect()
}

/// A volume for one node is attached to one node.
fn att_2(seen: &Snapshot) -> Vec<String> {
    let mut broken = Vec::new();
    for found in seen.volumes.iter().filter(|v| !volume::multi_attach(v)) {
        let of_volume = |a: &&Arc<VolumeAttachment>| volume::attachment_volume(a) == Some(found.name());
        let attached = seen.attachments.iter().filter(|a| of_volume(a) && volume::attached(a));
        let nodes: Vec<&str> = attached.map(|a| a.spec.node_name.as_str()).collect();
        if nodes.len() > 1 {
            broken.push(format!("ATT-2: {} is attached to {}", found.name(), nodes.join(" and ")));
        }
    }
    broken
}
