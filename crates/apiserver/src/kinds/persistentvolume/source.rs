//! Where the bytes of a volume are: exactly one source.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, HostPathVolumeSource, NFSVolumeSource, PersistentVolumeSpec, SecretReference,
};

use super::intree;
use crate::field::Invalid;
use crate::kinds::check::same::json;
use crate::kinds::check::{self, names, paths};

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const SECOND: &str = "may not specify more than 1 volume type";

/// Every source, in the order in which upstream counts them.
fn sources(spec: &PersistentVolumeSpec) -> [(&'static str, bool); 22] {
    [
        ("hostPath", spec.host_path.is_some()),
        ("gcePersistentDisk", spec.gce_persistent_disk.is_some()),
        ("awsElasticBlockStore", spec.aws_elastic_block_store.is_some()),
        ("glusterfs", spec.glusterfs.is_some()),
        ("flocker", spec.flocker.is_some()),
        ("nfs", spec.nfs.is_some()),
        ("rbd", spec.rbd.is_some()),
        ("quobyte", spec.quobyte.is_some()),
        ("cephFS", spec.cephfs.is_some()),
        ("iscsi", spec.iscsi.is_some()),
        ("cinder", spec.cinder.is_some()),
        ("fc", spec.fc.is_some()),
        ("flexVolume", spec.flex_volume.is_some()),
        ("azureFile", spec.azure_file.is_some()),
        ("vsphereVolume", spec.vsphere_volume.is_some()),
        ("photonPersistentDisk", spec.photon_persistent_disk.is_some()),
        ("portworxVolume", spec.portworx_volume.is_some()),
        ("azureDisk", spec.azure_disk.is_some()),
        ("scaleIO", spec.scale_io.is_some()),
        ("local", spec.local.is_some()),
        ("storageos", spec.storageos.is_some()),
        ("csi", spec.csi.is_some()),
    ]
}

/// Whether the source is of an old type that took mount options from an annotation.
pub fn had_mount_options(spec: &PersistentVolumeSpec) -> bool {
    const WITHOUT: [&str; 9] =
        ["hostPath", "flocker", "fc", "flexVolume", "portworxVolume", "scaleIO", "local", "storageos", "csi"];
    sources(spec).iter().any(|(name, set)| *set && !WITHOUT.contains(name))
}

pub fn errors(field: &str, spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let set: Vec<&str> = sources(spec).into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
    let Some((first, others)) = set.split_first() else {
        return vec![Invalid::required(field, "must specify a volume type")];
    };
    let mut errors = inner_errors(field, first, spec);
    // Flex volumes are not counted against others upstream.
    let second = others.iter().filter(|name| **name != "flexVolume");
    errors.extend(second.map(|name| Invalid::forbidden(format!("{field}.{name}"), SECOND)));
    errors
}

fn inner_errors(field: &str, name: &str, spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let at = &format!("{field}.{name}");
    match name {
        "hostPath" => spec.host_path.as_ref().map(|source| host_path_errors(at, source)),
        "nfs" => spec.nfs.as_ref().map(|source| nfs_errors(at, source)),
        "csi" => spec.csi.as_ref().map(|source| csi_errors(at, source)),
        "local" => spec.local.as_ref().map(|source| {
            let path = paths::required(&format!("{at}.path"), &source.path);
            let anywhere = spec.node_affinity.is_none().then(|| {
                let affinity = at.replace(".local", ".nodeAffinity");
                Invalid::required(affinity, "Local volume requires node affinity")
            });
            path.into_iter().chain(anywhere).collect()
        }),
        other => Some(intree::errors(field, other, &json(spec))),
    }
    .unwrap_or_default()
}

/// Shared with volumes of pods.
pub fn host_path_errors(at: &str, source: &HostPathVolumeSource) -> Vec<Invalid> {
    if source.path.is_empty() {
        return vec![Invalid::required(format!("{at}.path"), "")];
    }
    let path = paths::no_backsteps(&format!("{at}.path"), &source.path);
    let type_ = source.type_.as_deref().unwrap_or_default();
    path.into_iter().chain(check::one_of(&format!("{at}.type"), type_, &HOST_PATH_TYPES)).collect()
}

/// Shared with volumes of pods.
pub fn nfs_errors(at: &str, source: &NFSVolumeSource) -> Vec<Invalid> {
    let mut errors = Vec::new();
    errors.extend(check::required(&format!("{at}.server"), Some(&source.server)));
    errors.extend(check::required(&format!("{at}.path"), Some(&source.path)));
    if !source.path.starts_with('/') {
        let path = source.path.as_str();
        errors.push(Invalid::invalid(format!("{at}.path"), path, "must be an absolute path"));
    }
    errors
}

/// The secret for staging is not looked at: upstream does not either.
fn csi_errors(at: &str, source: &CSIPersistentVolumeSource) -> Vec<Invalid> {
    let mut errors = names::driver(&format!("{at}.driver"), &source.driver);
    errors.extend(check::required(&format!("{at}.volumeHandle"), Some(&source.volume_handle)));
    let secrets = [
        ("controllerPublishSecretRef", &source.controller_publish_secret_ref),
        ("controllerExpandSecretRef", &source.controller_expand_secret_ref),
        ("nodePublishSecretRef", &source.node_publish_secret_ref),
        ("nodeExpandSecretRef", &source.node_expand_secret_ref),
    ];
    for (name, secret) in secrets {
        errors.extend(secret.iter().flat_map(|secret| secret_errors(&format!("{at}.{name}"), secret)));
    }
    errors
}

fn secret_errors(at: &str, secret: &SecretReference) -> Vec<Invalid> {
    let (name, namespace) = (format!("{at}.name"), format!("{at}.namespace"));
    let mut errors = match secret.name.as_deref().unwrap_or_default() {
        "" => vec![Invalid::required(name, "")],
        value => names::subdomain(&name, value),
    };
    errors.extend(names::required_label(&namespace, secret.namespace.as_deref().unwrap_or_default()));
    errors
}
