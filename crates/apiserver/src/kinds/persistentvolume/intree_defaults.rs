//! What sources of the plugins that were part of Kubernetes default to, in volumes and in pods: these have types of
//! their own with the same fields.

use k8s_openapi::api::core::v1::AzureDiskVolumeSource;

use crate::kinds::pod::defaults::text;

type Text = Option<String>;

pub fn iscsi(interface: &mut Text) {
    text(interface, "default");
}

pub fn rbd(pool: &mut Text, user: &mut Text, keyring: &mut Text) {
    text(pool, "rbd");
    text(user, "admin");
    text(keyring, "/etc/ceph/keyring");
}

pub fn scale_io(storage_mode: &mut Text, fs_type: &mut Text) {
    text(storage_mode, "ThinProvisioned");
    text(fs_type, "xfs");
}

pub fn azure_disk(source: &mut AzureDiskVolumeSource) {
    source.caching_mode.get_or_insert_with(|| "ReadWrite".into());
    source.kind.get_or_insert_with(|| "Shared".into());
    source.fs_type.get_or_insert_with(|| "ext4".into());
    source.read_only.get_or_insert(false);
}
