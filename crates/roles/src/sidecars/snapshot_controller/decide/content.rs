//! The content of a snapshot of a claim.

use std::collections::BTreeMap;

use bowline_api::snapshot::{API_VERSION, VolumeSnapshotContentSource, VolumeSnapshotContentSpec};
use bowline_api::{
    Meta, PersistentVolume, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent, keys, volume,
};
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::model::{Action, Snapshot};
use super::{Decision, claim_guarded, problem};
use crate::sidecars::snapshots::{Names, secret};

/// Derived, so that a repeat finds what the first try made.
pub fn content_name(snapshot: &VolumeSnapshot) -> String {
    format!("snapcontent-{}", snapshot.uid())
}

/// The claim gets its finalizer first: from then on its volume stays until the snapshot is taken.
pub(super) fn create(seen: &Snapshot) -> Decision {
    let failed = |why: String| {
        let text = format!("Failed to create snapshot content with error {why}");
        problem(seen, "SnapshotContentCreationFailed", text, true)
    };
    if let Err(why) = source_claim(seen) {
        return failed(why);
    }
    if !claim_guarded(seen) {
        return Step::Do(Action::GuardClaim);
    }
    match content(seen) {
        Ok(content) => Step::Do(Action::CreateContent(Box::new(content))),
        Err(why) => failed(why),
    }
}

fn source_claim(seen: &Snapshot) -> Result<&bowline_api::PersistentVolumeClaim, String> {
    let name = seen.object.spec.source.persistent_volume_claim_name.as_deref().unwrap_or_default();
    let Some(claim) = &seen.claim else {
        return Err(format!(
            "failed to retrieve PVC {name} from the lister: \"persistentvolumeclaim \\\"{name}\\\" not found\""
        ));
    };
    if claim.deleting() {
        return Err(format!(
            "cannot add finalizer on claim [{}] for snapshot [{}]: claim is being deleted",
            claim.key(),
            seen.object.key()
        ));
    }
    Ok(claim)
}

/// The volume that the claim is bound to, and that is bound to the claim.
pub(super) fn source_volume(seen: &Snapshot) -> Result<&PersistentVolume, String> {
    let claim = source_claim(seen)?;
    if !volume::bound(claim) {
        let name = claim.name();
        return Err(format!("the PVC {name} is not yet bound to a PV, will not attempt to take a snapshot"));
    }
    let volume = seen.volume.as_deref().ok_or_else(|| {
        let name = volume::claim_volume(claim);
        format!(
            "failed to retrieve PV {name} from the API server: \"persistentvolumes \\\"{name}\\\" not found\""
        )
    })?;
    let back = volume::claim_ref(volume).is_some_and(|reference| volume::refers_to(reference, claim));
    if back { Ok(volume) } else { Err("claim in dataSource not bound or invalid".into()) }
}

fn content(seen: &Snapshot) -> Result<VolumeSnapshotContent, String> {
    let (snapshot, name) = (&seen.object, content_name(&seen.object));
    let class: &VolumeSnapshotClass = seen
        .class
        .as_deref()
        .ok_or_else(|| format!("failed to take snapshot {} without a snapshot class", snapshot.name()))?;
    let volume = source_volume(seen).map_err(|why| {
        format!("failed to get input parameters to create snapshot {}: \"{why}\"", snapshot.name())
    })?;
    let csi = volume::csi(volume)
        .ok_or_else(|| format!("cannot find CSI PersistentVolumeSource for volume {}", volume.name()))?;
    let names =
        Names { content: &name, snapshot: Some((snapshot.namespace(), snapshot.name())), group: false };
    let secret = secret(class.parameters.as_ref(), keys::SNAPSHOTTER_SECRET, &names)?;
    let annotations = secret.map(|secret| {
        let part = |part: Option<String>| part.unwrap_or_default();
        BTreeMap::from([
            (keys::SNAPSHOT_DELETION_SECRET_NAME.to_owned(), part(secret.name)),
            (keys::SNAPSHOT_DELETION_SECRET_NAMESPACE.to_owned(), part(secret.namespace)),
        ])
    });
    let node = seen.node.clone().filter(|_| seen.settings.distributed);
    let labels = node.map(|node| BTreeMap::from([(keys::SNAPSHOT_MANAGED_BY.to_owned(), node)]));
    let mode = volume::volume_mode(volume).to_owned();
    let spec = VolumeSnapshotContentSpec {
        volume_snapshot_ref: reference(snapshot),
        deletion_policy: class.deletion_policy.clone(),
        driver: class.driver.clone(),
        volume_snapshot_class_name: Some(class.name().to_owned()),
        source: VolumeSnapshotContentSource {
            volume_handle: Some(csi.volume_handle.clone()),
            snapshot_handle: None,
        },
        source_volume_mode: seen.settings.keep_volume_mode.then_some(mode),
    };
    let metadata = ObjectMeta { name: Some(name), annotations, labels, ..ObjectMeta::default() };
    Ok(VolumeSnapshotContent { metadata, spec, status: None })
}

/// The full reference, as upstream writes it.
fn reference(snapshot: &VolumeSnapshot) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.into()),
        kind: Some("VolumeSnapshot".into()),
        name: snapshot.metadata.name.clone(),
        namespace: snapshot.metadata.namespace.clone(),
        resource_version: snapshot.metadata.resource_version.clone(),
        uid: snapshot.metadata.uid.clone(),
        field_path: None,
    }
}
