//! Indexes that several roles share. A name stands for one function: whoever needs an index adds it from here.

use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, keys, pod, volume};
use bowline_machinery::Cache;

pub const PODS_BY_CLAIM: &str = "pods by claim";
pub const PODS_BY_NODE: &str = "pods by node";
pub const VOLUMES_BY_CLAIM: &str = "volumes by claim";
pub const FREE_VOLUMES_BY_CLASS: &str = "free volumes by class";
pub const CLAIMS_BY_VOLUME: &str = "claims by volume";
pub const SEARCHING_CLAIMS_BY_CLASS: &str = "searching claims by class";

/// Pods that use a claim, by `namespace/claim`.
pub fn pods_by_claim(pods: &Cache<Pod>) {
    pods.index(PODS_BY_CLAIM, |pod| {
        pod::claims(pod).map(|(_, claim)| ObjectKey::new(pod.namespace(), claim).to_string()).collect()
    });
}

/// Pods that a node runs or will run, by node. Those that have run to their end are not there.
pub fn pods_by_node(pods: &Cache<Pod>) {
    pods.index(PODS_BY_NODE, |pod| match pod::node_name(pod) {
        "" => Vec::new(),
        _ if pod::terminated(pod) => Vec::new(),
        node => vec![node.to_owned()],
    });
}

/// Volumes that refer to a claim, by `namespace/claim`, whatever the UID.
pub fn volumes_by_claim(volumes: &Cache<PersistentVolume>) {
    volumes.index(VOLUMES_BY_CLAIM, |volume| {
        volume::claim_ref(volume).map(|reference| reference_key(reference).to_string()).into_iter().collect()
    });
}

/// Volumes that any claim may take, by class.
pub fn free_volumes_by_class(volumes: &Cache<PersistentVolume>) {
    volumes.index(FREE_VOLUMES_BY_CLASS, |volume| {
        is_free(volume).then(|| volume::volume_class(volume).to_owned()).into_iter().collect()
    });
}

/// Claims that name a volume, by its name.
pub fn claims_by_volume(claims: &Cache<PersistentVolumeClaim>) {
    claims.index(CLAIMS_BY_VOLUME, |claim| match volume::claim_volume(claim) {
        "" => Vec::new(),
        name => vec![name.to_owned()],
    });
}

/// Claims that have no volume yet, by class; those without a class under the empty name.
pub fn searching_claims_by_class(claims: &Cache<PersistentVolumeClaim>) {
    claims.index(SEARCHING_CLAIMS_BY_CLASS, |claim| {
        let searching =
            volume::claim_volume(claim).is_empty() && claim.annotation(keys::BIND_COMPLETED).is_none();
        searching.then(|| volume::claim_class(claim).unwrap_or_default().to_owned()).into_iter().collect()
    });
}

pub fn is_free(volume: &PersistentVolume) -> bool {
    volume::claim_ref(volume).is_none()
        && volume::volume_phase(volume) == volume::AVAILABLE
        && !volume.deleting()
}

/// The claim that a reference names.
pub fn reference_key(reference: &k8s_openapi::api::core::v1::ObjectReference) -> ObjectKey {
    ObjectKey::new(
        reference.namespace.clone().unwrap_or_default(),
        reference.name.clone().unwrap_or_default(),
    )
}
