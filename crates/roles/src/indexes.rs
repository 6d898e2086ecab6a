//! Indexes that several roles share: a name and its function stand together, so one name never means two things.

use std::sync::Arc;

use bowline_api::{
    Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment, VolumeSnapshot,
};
use bowline_api::{ObjectKey, expansion, keys, name, node, pod, snapshot, volume};
use bowline_machinery::Cache;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::sidecars::external_provisioner::{cloned_from, restored_from};

/// Attachments by the name of their volume.
pub const ATTACHMENTS_OF_VOLUME: &str = "attachments-of-volume";
/// Attachments by the name of their node.
pub const ATTACHMENTS_ON_NODE: &str = "attachments-on-node";
/// Attachments that keep the handle of their volume, by the name that the kubelet knows it by.
pub const ATTACHMENTS_BY_UNIQUE_NAME: &str = "attachments-by-unique-name";
/// CSI volumes by the name that the kubelet knows them by; two objects may stand for one volume.
pub const VOLUMES_BY_UNIQUE_NAME: &str = "volumes-by-unique-name";
/// CSI volumes by driver.
pub const VOLUMES_OF_DRIVER: &str = "volumes-of-driver";
/// Claims by UID.
pub const CLAIMS_BY_UID: &str = "claims-by-uid";
/// Claims by the class they name.
pub const CLAIMS_OF_CLASS: &str = "claims-of-class";
/// Claims by the `namespace/claim` that they are cloned from.
pub const CLONES_OF_CLAIM: &str = "clones-of-claim";
/// Claims by the `namespace/snapshot` that they are restored from.
pub const RESTORES_OF_SNAPSHOT: &str = "restores-of-snapshot";
/// Pods by `namespace/claim`.
pub const PODS_BY_CLAIM: &str = "pods-by-claim";
/// Pods by the node that they are bound to.
pub const PODS_ON_NODE: &str = "pods-on-node";
/// Pods by UID: a name may be used again, a UID is not.
pub const PODS_BY_UID: &str = "pods-by-uid";
/// Pods by the CSI volumes that they describe themselves, under the name that the kubelet knows each by.
pub const PODS_BY_INLINE_VOLUME: &str = "pods-by-inline-volume";
/// Nodes by the volumes in their `volumesAttached`.
pub const NODES_BY_ATTACHED_VOLUME: &str = "nodes-by-attached-volume";
/// Pods that a node runs or will run, by node; those that have run to their end are not there.
pub const LIVE_PODS_BY_NODE: &str = "live-pods-by-node";
/// Volumes by the `namespace/claim` that they refer to, whatever the UID.
pub const VOLUMES_BY_CLAIM: &str = "volumes-by-claim";
/// Volumes that any claim may take, by class.
pub const FREE_VOLUMES_BY_CLASS: &str = "free-volumes-by-class";
/// Claims by the volume that they name.
pub const CLAIMS_BY_VOLUME: &str = "claims-by-volume";
/// Claims that have no volume yet, by class; those without a class under the empty name.
pub const SEARCHING_CLAIMS_BY_CLASS: &str = "searching-claims-by-class";

/// Claims by the attributes classes that they name or work towards.
pub const CLAIMS_OF_ATTRIBUTES_CLASS: &str = "claims-of-attributes-class";
/// Snapshots by the `namespace/claim` that they are taken of.
pub const SNAPSHOTS_BY_CLAIM: &str = "snapshots-by-claim";
/// Snapshots by the content that they name as their source, or are bound to.
pub const SNAPSHOTS_BY_CONTENT: &str = "snapshots-by-content";
/// Claims by the `namespace/snapshot` that they are to be restored from.
pub const CLAIMS_BY_SNAPSHOT: &str = "claims-by-snapshot";

pub fn snapshots(cache: &Cache<VolumeSnapshot>) {
    cache.index(SNAPSHOTS_BY_CLAIM, |s| {
        let claim = s.spec.source.persistent_volume_claim_name.as_ref();
        claim.map(|claim| ObjectKey::new(s.namespace(), claim).to_string()).into_iter().collect()
    });
    cache.index(SNAPSHOTS_BY_CONTENT, |s| {
        let bound = s.status.as_ref().and_then(|status| status.bound_volume_snapshot_content_name.clone());
        s.spec.source.volume_snapshot_content_name.clone().into_iter().chain(bound).collect()
    });
}

pub fn claims_by_snapshot(cache: &Cache<PersistentVolumeClaim>) {
    cache
        .index(CLAIMS_BY_SNAPSHOT, |c| restored_snapshot(c).map(|key| key.to_string()).into_iter().collect());
}

/// The snapshot that a claim names as its data source.
pub fn restored_snapshot(claim: &PersistentVolumeClaim) -> Option<ObjectKey> {
    let source = claim.spec.as_ref()?.data_source.as_ref()?;
    let ours = source.kind == "VolumeSnapshot" && source.api_group.as_deref() == Some(snapshot::GROUP);
    ours.then(|| ObjectKey::new(claim.namespace(), &source.name))
}

pub fn attachments(cache: &Cache<VolumeAttachment>) {
    cache.index(ATTACHMENTS_OF_VOLUME, |a| {
        volume::attachment_volume(a).map(String::from).into_iter().collect()
    });
    cache.index(ATTACHMENTS_ON_NODE, |a| vec![a.spec.node_name.clone()]);
    cache.index(ATTACHMENTS_BY_UNIQUE_NAME, |a| kept_name(a).into_iter().collect());
}

/// The unique name of the volume that an attachment keeps for when the volume's object is gone.
pub fn kept_name(attachment: &VolumeAttachment) -> Option<String> {
    let handle = attachment.annotation(keys::ATTACHMENT_VOLUME_HANDLE)?;
    Some(name::unique_volume(&attachment.spec.attacher, handle))
}

pub fn volumes(cache: &Cache<PersistentVolume>) {
    cache.index(VOLUMES_BY_UNIQUE_NAME, |v| volume::unique_name(v).into_iter().collect());
    cache.index(VOLUMES_OF_DRIVER, |v| volume::csi(v).map(|csi| csi.driver.clone()).into_iter().collect());
}

pub fn claims(cache: &Cache<PersistentVolumeClaim>) {
    cache.index(CLAIMS_BY_UID, |c| vec![c.uid().to_owned()]);
    cache.index(CLAIMS_OF_CLASS, |c| volume::claim_class(c).map(String::from).into_iter().collect());
}

/// What the provisioner looks clones up by.
pub fn clones(cache: &Cache<PersistentVolumeClaim>) {
    cache.index(CLONES_OF_CLAIM, |c| cloned_from(c).map(|key| key.to_string()).into_iter().collect());
    cache.index(RESTORES_OF_SNAPSHOT, |c| restored_from(c).map(|key| key.to_string()).into_iter().collect());
}

pub fn pods(cache: &Cache<Pod>) {
    let by_claim =
        |p: &Pod| pod::claims(p).map(|(_, claim)| ObjectKey::new(p.namespace(), claim).to_string()).collect();
    cache.index(PODS_BY_CLAIM, by_claim);
    cache.index(PODS_ON_NODE, |p| vec![pod::node_name(p).to_owned()]);
}

pub fn pods_by_uid(cache: &Cache<Pod>) {
    cache.index(PODS_BY_UID, |pod| vec![pod.uid().to_owned()]);
}

pub fn pods_by_inline_volume(cache: &Cache<Pod>) {
    cache.index(PODS_BY_INLINE_VOLUME, |p| {
        let inline = pod::volumes(p).iter().filter(|volume| volume.csi.is_some());
        inline.map(|volume| name::inline_volume(p.uid(), &volume.name)).collect()
    });
}

/// The pod of this UID.
pub fn pod_with_uid(cache: &Cache<Pod>, uid: &str) -> Option<Arc<Pod>> {
    cache.indexed(PODS_BY_UID, uid).into_iter().next()
}

pub fn nodes(cache: &Cache<Node>) {
    cache.index(NODES_BY_ATTACHED_VOLUME, |n| {
        node::volumes_attached(n).into_iter().map(String::from).collect()
    });
}

pub fn live_pods(cache: &Cache<Pod>) {
    cache.index(LIVE_PODS_BY_NODE, |p| match pod::node_name(p) {
        "" => Vec::new(),
        _ if pod::terminated(p) => Vec::new(),
        node => vec![node.to_owned()],
    });
}

/// What binding looks volumes up by.
pub fn volumes_to_bind(cache: &Cache<PersistentVolume>) {
    cache.index(VOLUMES_BY_CLAIM, |v| {
        volume::claim_ref(v).map(|reference| reference_key(reference).to_string()).into_iter().collect()
    });
    cache.index(FREE_VOLUMES_BY_CLASS, |v| {
        is_free(v).then(|| volume::volume_class(v).to_owned()).into_iter().collect()
    });
}

/// What binding looks claims up by.
pub fn claims_to_bind(cache: &Cache<PersistentVolumeClaim>) {
    cache.index(CLAIMS_BY_VOLUME, |c| match volume::claim_volume(c) {
        "" => Vec::new(),
        name => vec![name.to_owned()],
    });
    cache.index(SEARCHING_CLAIMS_BY_CLASS, |c| {
        let searching = volume::claim_volume(c).is_empty() && c.annotation(keys::BIND_COMPLETED).is_none();
        searching.then(|| volume::claim_class(c).unwrap_or_default().to_owned()).into_iter().collect()
    });
}

/// What a change of the attributes class looks claims up by.
pub fn claims_to_modify(cache: &Cache<PersistentVolumeClaim>) {
    cache.index(CLAIMS_OF_ATTRIBUTES_CLASS, |c| {
        let names = [volume::claim_attributes_class(c), expansion::modify_target(c)];
        names.into_iter().filter(|name| !name.is_empty()).map(String::from).collect()
    });
}

/// Whether any claim may take a volume.
pub fn is_free(volume: &PersistentVolume) -> bool {
    volume::claim_ref(volume).is_none()
        && volume::volume_phase(volume) == volume::AVAILABLE
        && !volume.deleting()
}

/// The claim that a reference names.
pub fn reference_key(reference: &ObjectReference) -> ObjectKey {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    ObjectKey::new(text(&reference.namespace), text(&reference.name))
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
