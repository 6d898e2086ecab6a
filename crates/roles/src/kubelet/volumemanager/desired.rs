//! From a pod's volume over its claim to the volume behind it (reference kube-core.md 4.2). Pure.

use std::collections::BTreeSet;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, Pod, keys, pod, volume};

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolumeSpec, SecretReference};

use super::model::Mode;

/// What a pod's volume comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The unique volume name.
    pub volume: String,
    pub driver: String,
    pub handle: String,
    pub spec_name: String,
    pub mode: Mode,
    pub read_only: bool,
}

/// A volume of a pod that is backed by a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub volume_name: String,
    pub claim_name: String,
    pub read_only: bool,
    /// The claim must have been made for this very pod.
    pub ephemeral: bool,
    pub mounted: bool,
    pub device: bool,
}

/// Names of volumes that containers mount, and of those they open as devices.
fn used(pod: &Pod) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let mounts = pod::containers(pod).flat_map(|c| c.volume_mounts.iter().flatten()).map(|m| m.name.as_str());
    let devices =
        pod::containers(pod).flat_map(|c| c.volume_devices.iter().flatten()).map(|d| d.name.as_str());
    (mounts.collect(), devices.collect())
}

/// Volumes with a claim that some container uses; others are neither mounted nor waited for.
pub fn claimed(pod: &Pod) -> Vec<Claimed> {
    let (mounts, devices) = used(pod);
    let mut all = Vec::new();
    for (name, claim_name) in pod::claims(pod) {
        let (mounted, device) = (mounts.contains(name), devices.contains(name));
        let source = pod::volumes(pod).iter().find(|v| v.name == name);
        let claim = source.and_then(|v| v.persistent_volume_claim.as_ref());
        if mounted || device {
            all.push(Claimed {
                volume_name: name.to_owned(),
                claim_name,
                read_only: claim.and_then(|c| c.read_only).unwrap_or(false),
                ephemeral: claim.is_none(),
                mounted,
                device,
            });
        }
    }
    all
}

/// CSI volumes that the pod itself describes and a container uses, each by its name in the pod; or why it cannot be
/// mounted.
pub fn inline(pod: &Pod) -> Vec<(String, Result<Resolved, String>)> {
    let (mounts, devices) = used(pod);
    let mut all = Vec::new();
    for volume in pod::volumes(pod) {
        let (Some(source), name) = (&volume.csi, volume.name.as_str()) else { continue };
        if devices.contains(name) {
            let text = format!("volume {name} has volumeMode Filesystem, but is specified in volumeDevices");
            all.push((name.to_owned(), Err(text)));
        } else if mounts.contains(name) {
            let resolved = Resolved {
                volume: bowline_api::name::inline_volume(pod.uid(), name),
                driver: source.driver.clone(),
                handle: bowline_api::name::inline_handle(pod.uid(), name),
                spec_name: name.to_owned(),
                mode: Mode::Filesystem,
                read_only: source.read_only.unwrap_or(false),
            };
            all.push((name.to_owned(), Ok(resolved)));
        }
    }
    all
}

/// An inline volume in the form of a PersistentVolume that no other pod can use: one node, no mount options.
pub fn inline_source(pod: &Pod, name: &str) -> Option<PersistentVolume> {
    let source = pod::volumes(pod).iter().find(|volume| volume.name == name)?.csi.as_ref()?;
    let secret = source.node_publish_secret_ref.as_ref().map(|secret| SecretReference {
        name: Some(secret.name.clone()),
        namespace: Some(pod.namespace().to_owned()),
    });
    let csi = CSIPersistentVolumeSource {
        driver: source.driver.clone(),
        volume_handle: bowline_api::name::inline_handle(pod.uid(), name),
        fs_type: source.fs_type.clone(),
        read_only: source.read_only,
        volume_attributes: source.volume_attributes.clone(),
        node_publish_secret_ref: secret,
        ..Default::default()
    };
    let spec = PersistentVolumeSpec {
        access_modes: Some(vec![volume::READ_WRITE_ONCE.to_owned()]),
        csi: Some(csi),
        ..Default::default()
    };
    let mut pv = PersistentVolume { spec: Some(spec), ..Default::default() };
    pv.metadata.name = Some(name.to_owned());
    Some(pv)
}

/// Follows a claim to its volume, or says in upstream's words why that cannot be done.
pub fn resolve(
    pod: &Pod,
    wanted: &Claimed,
    claim: Option<&PersistentVolumeClaim>,
    pv: Option<&PersistentVolume>,
) -> Result<Resolved, String> {
    let name = format!("{}/{}", pod.namespace(), wanted.claim_name);
    let wrong = |why: String| format!("error processing PVC {name}: {why}");
    let Some(claim) = claim else {
        let short = &wanted.claim_name;
        let text = format!("persistentvolumeclaims {short:?} not found");
        return Err(wrong(format!("failed to fetch PVC from API server: {text}")));
    };
    if wanted.ephemeral && !owned_by(claim, pod) {
        let pod = pod.key();
        return Err(wrong(format!("PVC {name} was not created for pod {pod} (pod is not owner)")));
    }
    if claim.deleting() && !claim.has_finalizer(keys::PVC_PROTECTION) {
        return Err(wrong("PVC is being deleted".into()));
    }
    if volume::claim_phase(claim) != "Bound" {
        return Err(wrong("PVC is not bound".into()));
    }
    let spec_name = volume::claim_volume(claim);
    if spec_name.is_empty() {
        return Err(wrong("PVC has empty pvc.Spec.VolumeName".into()));
    }
    let Some(pv) = pv else {
        return Err(wrong(format!(
            "failed to fetch PV {spec_name} from API server: persistentvolumes {spec_name:?} not found"
        )));
    };
    bound_back(claim, pv).map_err(wrong)?;
    let mode = mode(wanted, pv)?;
    let Some(source) = volume::csi(pv) else {
        return Err(format!("volume {} is not a CSI volume: no volume plugin matched", wanted.volume_name));
    };
    Ok(Resolved {
        volume: bowline_api::name::unique_volume(&source.driver, &source.volume_handle),
        driver: source.driver.clone(),
        handle: source.volume_handle.clone(),
        spec_name: spec_name.to_owned(),
        mode,
        read_only: wanted.read_only,
    })
}

fn owned_by(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owners = claim.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|o| o.controller == Some(true) && o.uid == pod.uid())
}

fn bound_back(claim: &PersistentVolumeClaim, pv: &PersistentVolume) -> Result<(), String> {
    let name = pv.name();
    match volume::claim_ref(pv) {
        None => Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        )),
        Some(reference) if reference.uid.as_deref() != Some(claim.uid()) => Err(format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {:?} does not point to claim.UID {:?}",
            reference.uid.as_deref().unwrap_or_default(),
            claim.uid()
        )),
        Some(_) => Ok(()),
    }
}

fn mode(wanted: &Claimed, pv: &PersistentVolume) -> Result<Mode, String> {
    let name = &wanted.volume_name;
    match (volume::volume_mode(pv) == volume::BLOCK, wanted.mounted, wanted.device) {
        (true, true, _) => {
            Err(format!("volume {name} has volumeMode Block, but is specified in volumeMounts"))
        }
        (false, _, true) => {
            Err(format!("volume {name} has volumeMode Filesystem, but is specified in volumeDevices"))
        }
        (true, false, _) => Ok(Mode::Block),
        (false, _, false) => Ok(Mode::Filesystem),
    }
}
