//! Indexes that several roles share: a name and its function stand together, so one name never means two things.

use bowline_api::{Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_api::{ObjectKey, node, pod, volume};
use bowline_machinery::Cache;

/// Attachments by the name of their volume.
pub const ATTACHMENTS_OF_VOLUME: &str = "attachments-of-volume";
/// Attachments by the name of their node.
pub const ATTACHMENTS_ON_NODE: &str = "attachments-on-node";
/// CSI volumes by the name that the kubelet knows them by; two objects may stand for one volume.
pub const VOLUMES_BY_UNIQUE_NAME: &str = "volumes-by-unique-name";
/// CSI volumes by driver.
pub const VOLUMES_OF_DRIVER: &str = "volumes-of-driver";
/// Claims by UID.
pub const CLAIMS_BY_UID: &str = "claims-by-uid";
/// Claims by the class they name.
pub const CLAIMS_OF_CLASS: &str = "claims-of-class";
/// Pods by `namespace/claim`.
pub const PODS_BY_CLAIM: &str = "pods-by-claim";
/// Pods by the node that they are bound to.
pub const PODS_ON_NODE: &str = "pods-on-node";
/// Nodes by the volumes in their `volumesAttached`.
pub const NODES_BY_ATTACHED_VOLUME: &str = "nodes-by-attached-volume";

pub fn attachments(cache: &Cache<VolumeAttachment>) {
    cache.index(ATTACHMENTS_OF_VOLUME, |a| {
        volume::attachment_volume(a).map(String::from).into_iter().collect()
    });
    cache.index(ATTACHMENTS_ON_NODE, |a| vec![a.spec.node_name.clone()]);
}

pub fn volumes(cache: &Cache<PersistentVolume>) {
    cache.index(VOLUMES_BY_UNIQUE_NAME, |v| volume::unique_name(v).into_iter().collect());
    cache.index(VOLUMES_OF_DRIVER, |v| volume::csi(v).map(|csi| csi.driver.clone()).into_iter().collect());
}

pub fn claims(cache: &Cache<PersistentVolumeClaim>) {
    cache.index(CLAIMS_BY_UID, |c| vec![c.uid().to_owned()]);
    cache.index(CLAIMS_OF_CLASS, |c| volume::claim_class(c).map(String::from).into_iter().collect());
}

pub fn pods(cache: &Cache<Pod>) {
    let by_claim =
        |p: &Pod| pod::claims(p).map(|(_, claim)| ObjectKey::new(p.namespace(), claim).to_string()).collect();
    cache.index(PODS_BY_CLAIM, by_claim);
    cache.index(PODS_ON_NODE, |p| vec![pod::node_name(p).to_owned()]);
}

pub fn nodes(cache: &Cache<Node>) {
    cache.index(NODES_BY_ATTACHED_VOLUME, |n| {
        node::volumes_attached(n).into_iter().map(String::from).collect()
    });
}

/// Whether a pod that names a claim may use it: the claim of a generic ephemeral volume must be the pod's own.
pub fn may_use(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let named = |v: &&k8s_openapi::api::core::v1::Volume| {
        v.persistent_volume_claim.as_ref().is_some_and(|c| c.claim_name == claim.name())
    };
    let owned = || {
        let owners = claim.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|o| o.controller == Some(true) && o.uid == pod.uid())
    };
    pod::volumes(pod).iter().any(|v| named(&v)) || owned()
}
