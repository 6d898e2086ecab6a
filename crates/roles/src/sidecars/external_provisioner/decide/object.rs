//! The object of a volume that was made.

use std::collections::BTreeMap;

use bowline_api::volume::{BLOCK, READ_ONLY_MANY, STORAGE, claim_access_modes, claim_mode};
use bowline_api::{PersistentVolume, StorageClass, keys, quantity_of, volume};
use bowline_machinery::events::reference_to;
use bowline_proto::csi::v1::{Topology, Volume};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeSpec,
    SecretReference, VolumeNodeAffinity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::model::{Claim, Creation};

/// Everything in one write: finalizer, annotations and claimRef are there from the first moment.
pub fn persistent_volume(
    seen: &Claim,
    class: &StorageClass,
    creation: &Creation,
    made: &Volume,
) -> PersistentVolume {
    let claim = seen.object.as_ref();
    let requested = creation.request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
    let bytes = if made.capacity_bytes == 0 { requested } else { made.capacity_bytes };
    let attributes_class = volume::claim_attributes_class(claim);
    let spec = PersistentVolumeSpec {
        access_modes: claim.spec.as_ref().and_then(|spec| spec.access_modes.clone()),
        capacity: Some(BTreeMap::from([(STORAGE.to_owned(), quantity_of(bytes))])),
        claim_ref: Some(reference_to(claim)),
        csi: Some(source(seen, creation, made)),
        mount_options: class.mount_options.clone(),
        node_affinity: affinity(&made.accessible_topology),
        persistent_volume_reclaim_policy: Some(
            class.reclaim_policy.clone().unwrap_or_else(|| volume::DELETE.to_owned()),
        ),
        storage_class_name: volume::claim_class(claim).map(String::from),
        volume_attributes_class_name: (!attributes_class.is_empty()).then(|| attributes_class.to_owned()),
        volume_mode: claim.spec.as_ref().and_then(|spec| spec.volume_mode.clone()),
        ..PersistentVolumeSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(creation.request.name.clone()),
        annotations: Some(annotations(class, creation)),
        finalizers: Some(vec![keys::PROVISIONER_FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    };
    PersistentVolume { metadata, spec: Some(spec), status: None }
}

fn source(seen: &Claim, creation: &Creation, made: &Volume) -> CSIPersistentVolumeSource {
    let claim = seen.object.as_ref();
    let block = claim_mode(claim) == BLOCK;
    let read_only =
        seen.settings.controller_publish_readonly && *claim_access_modes(claim) == [READ_ONLY_MANY];
    // The driver's own attributes win.
    let mut attributes =
        BTreeMap::from([(keys::PROVISIONER_IDENTITY.to_owned(), seen.settings.identity.clone())]);
    attributes.extend(made.volume_context.clone());
    let secrets = &creation.secrets;
    CSIPersistentVolumeSource {
        driver: seen.settings.driver.clone(),
        volume_handle: made.volume_id.clone(),
        fs_type: (!block && !creation.fs_type.is_empty()).then(|| creation.fs_type.clone()),
        read_only: read_only.then_some(true),
        volume_attributes: Some(attributes),
        controller_publish_secret_ref: secrets.controller_publish.clone(),
        node_stage_secret_ref: secrets.node_stage.clone(),
        node_publish_secret_ref: secrets.node_publish.clone(),
        controller_expand_secret_ref: secrets.controller_expand.clone(),
        node_expand_secret_ref: secrets.node_expand.clone(),
    }
}

/// Deletion must work when class and claim are gone, so the secret's name is kept here. Empty means none.
fn annotations(class: &StorageClass, creation: &Creation) -> BTreeMap<String, String> {
    let part = |part: fn(&SecretReference) -> Option<String>, secret: &Option<SecretReference>| {
        secret.as_ref().and_then(part).unwrap_or_default()
    };
    let (name, namespace) = (|s: &SecretReference| s.name.clone(), |s: &SecretReference| s.namespace.clone());
    let provisioner = &creation.secrets.provisioner;
    let mut all = BTreeMap::from([
        (keys::PROVISIONED_BY.to_owned(), class.provisioner.clone()),
        (keys::DELETION_SECRET_NAME.to_owned(), part(name, provisioner)),
        (keys::DELETION_SECRET_NAMESPACE.to_owned(), part(namespace, provisioner)),
    ]);
    let modify = &creation.secrets.controller_modify;
    if modify.is_some() {
        all.insert(keys::MODIFY_SECRET_NAME.to_owned(), part(name, modify));
        all.insert(keys::MODIFY_SECRET_NAMESPACE.to_owned(), part(namespace, modify));
    }
    all
}

/// One term per place from which the volume can be reached.
fn affinity(places: &[Topology]) -> Option<VolumeNodeAffinity> {
    let expression = |(key, value): (&String, &String)| NodeSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(vec![value.clone()]),
    };
    let term = |place: &Topology| NodeSelectorTerm {
        match_expressions: Some(place.segments.iter().map(expression).collect()),
        match_fields: None,
    };
    let node_selector_terms: Vec<_> = places.iter().filter(|p| !p.segments.is_empty()).map(term).collect();
    if node_selector_terms.is_empty() {
        return None;
    }
    Some(VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms }) })
}
