//! Volumes of a pod: each has a name and one source.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{CSIVolumeSource, PersistentVolumeClaimTemplate, Volume};

use super::containers::PULL_POLICIES;
use super::files;
use super::spec::Owner;
use crate::field::Invalid;
use crate::kinds::check::{self, names, quantities, same, selectors};
use crate::kinds::persistentvolume::{intree, source};
use crate::kinds::persistentvolumeclaim;

const SECOND: &str = "may not specify more than 1 volume type";

/// The volumes that containers may refer to, and what is wrong with the others.
pub fn errors<'a>(
    at: &str,
    owner: Owner<'_>,
    volumes: &'a [Volume],
) -> (BTreeMap<&'a str, &'a Volume>, Vec<Invalid>) {
    let ephemeral = volumes.iter().filter(|volume| volume.ephemeral.is_some());
    // The name is not known yet when it is to be generated.
    let made: Vec<String> = match owner {
        Owner::Pod("") | Owner::Template => Vec::new(),
        Owner::Pod(pod) => ephemeral.map(|volume| format!("{pod}-{}", volume.name)).collect(),
    };
    let (mut usable, mut errors) = (BTreeMap::new(), Vec::new());
    for (index, volume) in volumes.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let mut wrong = source_errors(&at, owner, volume);
        wrong.extend(names::required_label(&format!("{at}.name"), &volume.name));
        if usable.contains_key(volume.name.as_str()) {
            wrong.push(Invalid::duplicate(format!("{at}.name"), volume.name.as_str()));
        }
        if wrong.is_empty() {
            usable.insert(volume.name.as_str(), volume);
        }
        errors.extend(wrong);
        let claim = volume.persistent_volume_claim.as_ref().map(|source| &source.claim_name);
        if let Some(claim) = claim.filter(|claim| made.contains(claim)) {
            let text = "must not reference a PVC that gets created for an ephemeral volume";
            let at = format!("{at}.persistentVolumeClaim.claimName");
            errors.push(Invalid::invalid(at, claim.as_str(), text));
        }
    }
    (usable, errors)
}

/// Names of the sources that are set, in the order in which upstream counts them, spelt as upstream complains.
fn sources(volume: &Volume) -> Vec<&'static str> {
    let all = [
        ("emptyDir", volume.empty_dir.is_some()),
        ("hostPath", volume.host_path.is_some()),
        ("gitRepo", volume.git_repo.is_some()),
        ("gcePersistentDisk", volume.gce_persistent_disk.is_some()),
        ("awsElasticBlockStore", volume.aws_elastic_block_store.is_some()),
        ("secret", volume.secret.is_some()),
        ("nfs", volume.nfs.is_some()),
        ("iscsi", volume.iscsi.is_some()),
        ("glusterfs", volume.glusterfs.is_some()),
        ("flocker", volume.flocker.is_some()),
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some()),
        ("rbd", volume.rbd.is_some()),
        ("cinder", volume.cinder.is_some()),
        ("cephFS", volume.cephfs.is_some()),
        ("quobyte", volume.quobyte.is_some()),
        ("downwarAPI", volume.downward_api.is_some()),
        ("fc", volume.fc.is_some()),
        ("flexVolume", volume.flex_volume.is_some()),
        ("configMap", volume.config_map.is_some()),
        ("azureFile", volume.azure_file.is_some()),
        ("vsphereVolume", volume.vsphere_volume.is_some()),
        ("photonPersistentDisk", volume.photon_persistent_disk.is_some()),
        ("portworxVolume", volume.portworx_volume.is_some()),
        ("azureDisk", volume.azure_disk.is_some()),
        ("storageos", volume.storageos.is_some()),
        ("projected", volume.projected.is_some()),
        ("scaleIO", volume.scale_io.is_some()),
        ("csi", volume.csi.is_some()),
        ("ephemeral", volume.ephemeral.is_some()),
        ("image", volume.image.is_some()),
    ];
    all.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect()
}

fn source_errors(at: &str, owner: Owner<'_>, volume: &Volume) -> Vec<Invalid> {
    let set = sources(volume);
    let Some((first, others)) = set.split_first() else {
        return vec![Invalid::required(at, "must specify a volume type")];
    };
    let mut errors = inner_errors(at, first, owner, volume);
    if let (Owner::Pod(pod), "ephemeral") = (owner, *first) {
        errors.extend(claim_name_errors(at, pod, &volume.name));
    }
    errors.extend(others.iter().map(|name| Invalid::forbidden(format!("{at}.{name}"), SECOND)));
    errors
}

/// The claim that an ephemeral volume becomes is called after its pod and the volume.
fn claim_name_errors(at: &str, pod: &str, volume: &str) -> Vec<Invalid> {
    if pod.is_empty() || volume.is_empty() {
        return Vec::new();
    }
    let claim = format!("{pod}-{volume}");
    let texts = bowline_api::name::subdomain_errors(&claim).into_iter();
    let wrong = |text| Invalid::invalid(format!("{at}.name"), volume, format!("PVC name {claim:?}: {text}"));
    texts.map(wrong).collect()
}

fn inner_errors(field: &str, name: &str, owner: Owner<'_>, volume: &Volume) -> Vec<Invalid> {
    let at = &format!("{field}.{name}");
    let inner = match name {
        "emptyDir" => volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref()).map(|limit| {
            let at = format!("{at}.sizeLimit");
            let text = "SizeLimit field must be a valid resource quantity";
            let wrong = quantities::non_negative(&at, limit);
            wrong.map(|_| Invalid::forbidden(at, text)).into_iter().collect()
        }),
        "hostPath" => volume.host_path.as_ref().map(|inner| source::host_path_errors(at, inner)),
        "nfs" => volume.nfs.as_ref().map(|inner| source::nfs_errors(at, inner)),
        "persistentVolumeClaim" => volume.persistent_volume_claim.as_ref().map(|inner| {
            check::required(&format!("{at}.claimName"), Some(&inner.claim_name)).into_iter().collect()
        }),
        "secret" => volume.secret.as_ref().map(|inner| {
            let missing = check::required(&format!("{at}.secretName"), inner.secret_name.as_deref());
            missing.into_iter().chain(files::errors(at, inner.default_mode, inner.items.as_deref())).collect()
        }),
        "configMap" => volume.config_map.as_ref().map(|inner| {
            let missing = check::required(&format!("{at}.name"), Some(&inner.name));
            missing.into_iter().chain(files::errors(at, inner.default_mode, inner.items.as_deref())).collect()
        }),
        "downwarAPI" => volume.downward_api.as_ref().map(|inner| {
            // Only the complaint about a second source is misspelt.
            let at = at.replace("downwarAPI", "downwardAPI");
            let mut errors: Vec<Invalid> =
                files::mode_error(&format!("{at}.defaultMode"), inner.default_mode).into_iter().collect();
            errors.extend(inner.items.iter().flatten().flat_map(|file| files::downward_errors(&at, file)));
            errors
        }),
        "projected" => volume.projected.as_ref().map(|inner| files::projected_errors(at, inner)),
        "csi" => volume.csi.as_ref().map(|inner| csi_errors(at, inner)),
        "ephemeral" => volume.ephemeral.as_ref().map(|inner| match &inner.volume_claim_template {
            Some(template) => template_errors(&format!("{at}.volumeClaimTemplate"), template),
            None => vec![Invalid::required(format!("{at}.volumeClaimTemplate"), "")],
        }),
        "image" => volume.image.as_ref().map(|inner| {
            let named =
                owner == Owner::Template || !inner.reference.as_deref().unwrap_or_default().is_empty();
            let missing = (!named).then(|| Invalid::required(format!("{at}.reference"), ""));
            let policy = inner.pull_policy.as_deref();
            let policy = check::required_one_of(&format!("{at}.pullPolicy"), policy, &PULL_POLICIES);
            missing.into_iter().chain(policy).collect()
        }),
        other => Some(intree::errors(field, other, &same::json(volume))),
    };
    inner.unwrap_or_default()
}

fn csi_errors(at: &str, source: &CSIVolumeSource) -> Vec<Invalid> {
    let mut errors = names::driver(&format!("{at}.driver"), &source.driver);
    if let Some(secret) = &source.node_publish_secret_ref {
        errors.extend(match secret.name.as_str() {
            "" => vec![Invalid::required(format!("{at}.nodePublishSecretRef.name"), "")],
            // Upstream leaves the reference out of this path.
            name => names::subdomain(&format!("{at}.name"), name),
        });
    }
    errors
}

/// A claim in the making; of its metadata only labels and annotations are its own.
fn template_errors(at: &str, template: &PersistentVolumeClaimTemplate) -> Vec<Invalid> {
    let meta = template.metadata.clone().unwrap_or_default();
    let mut errors = names::annotations(&format!("{at}.metadata.annotations"), meta.annotations.as_ref());
    errors.extend(selectors::labels(&format!("{at}.metadata.labels"), meta.labels.as_ref()));
    if let Some(fields) = same::json(&meta).as_object() {
        let foreign = fields.keys().filter(|name| !matches!(name.as_str(), "labels" | "annotations"));
        errors
            .extend(foreign.map(|name| Invalid::forbidden(format!("{at}.metadata.{name}"), "cannot be set")));
    }
    errors.extend(persistentvolumeclaim::spec::errors(&format!("{at}.spec"), &template.spec));
    errors
}
