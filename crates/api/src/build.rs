//! Builders of objects, for production and tests: the defaults are the legal minimum.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, Pod,
    PodSpec, Volume, VolumeDevice, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::keys;
use crate::volume;

/// The built-in image: a read-only view of the machine's own root.
pub const HOST_IMAGE: &str = "host";

fn named(namespace: &str, name: &str) -> ObjectMeta {
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    ObjectMeta { name: Some(name.into()), namespace, ..Default::default() }
}

/// Starts a claim that is valid as it is: `ReadWriteOnce`, 1 GiB, default class, namespace `default`.
pub fn claim(name: &str) -> ClaimBuilder {
    let requests = BTreeMap::from([(volume::STORAGE.to_owned(), Quantity("1Gi".into()))]);
    let spec = PersistentVolumeClaimSpec {
        access_modes: Some(vec![volume::READ_WRITE_ONCE.into()]),
        resources: Some(VolumeResourceRequirements { requests: Some(requests), limits: None }),
        ..Default::default()
    };
    ClaimBuilder(PersistentVolumeClaim { metadata: named("default", name), spec: Some(spec), status: None })
}

pub struct ClaimBuilder(PersistentVolumeClaim);

impl ClaimBuilder {
    fn spec(&mut self) -> &mut PersistentVolumeClaimSpec {
        self.0.spec.get_or_insert_default()
    }
    pub fn class(mut self, class: &str) -> Self {
        self.spec().storage_class_name = Some(class.into());
        self
    }
    pub fn size(mut self, size: &str) -> Self {
        let requests = BTreeMap::from([(volume::STORAGE.to_owned(), Quantity(size.into()))]);
        self.spec().resources = Some(VolumeResourceRequirements { requests: Some(requests), limits: None });
        self
    }
    pub fn block(mut self) -> Self {
        self.spec().volume_mode = Some(volume::BLOCK.into());
        self
    }
    pub fn access_mode(mut self, mode: &str) -> Self {
        self.spec().access_modes = Some(vec![mode.into()]);
        self
    }
    pub fn build(self) -> PersistentVolumeClaim {
        self.0
    }
}

/// Starts a pod in `default` with one container `main` of the built-in image, which is never restarted.
pub fn pod(name: &str) -> PodBuilder {
    let main = Container { name: "main".into(), image: Some(HOST_IMAGE.into()), ..Default::default() };
    let spec = PodSpec { containers: vec![main], restart_policy: Some("Never".into()), ..Default::default() };
    PodBuilder(Pod { metadata: named("default", name), spec: Some(spec), status: None })
}

pub struct PodBuilder(Pod);

impl PodBuilder {
    fn spec(&mut self) -> &mut PodSpec {
        self.0.spec.get_or_insert_default()
    }
    fn volume(&mut self, name: &str, claim: &str) {
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.into(), read_only: None };
        let volume =
            Volume { name: name.into(), persistent_volume_claim: Some(source), ..Default::default() };
        self.spec().volumes.get_or_insert_default().push(volume);
    }
    /// Runs this line in `/bin/sh`.
    pub fn shell(mut self, line: &str) -> Self {
        self.spec().containers[0].command = Some(["/bin/sh", "-c", line].map(String::from).into());
        self
    }
    /// Runs this line to its end before `main` starts, with the mounts and devices that `main` has by now.
    pub fn init_shell(mut self, line: &str) -> Self {
        let spec = self.spec();
        let command = Some(["/bin/sh", "-c", line].map(String::from).into());
        let init = Container { name: "init".into(), command, ..spec.containers[0].clone() };
        spec.init_containers.get_or_insert_default().push(init);
        self
    }
    pub fn restart_policy(mut self, policy: &str) -> Self {
        self.spec().restart_policy = Some(policy.into());
        self
    }
    /// Mounts a claim's filesystem.
    pub fn mount(mut self, claim: &str, path: &str) -> Self {
        self.volume(claim, claim);
        let mount = VolumeMount { name: claim.into(), mount_path: path.into(), ..Default::default() };
        self.spec().containers[0].volume_mounts.get_or_insert_default().push(mount);
        self
    }
    /// Presents a claim's raw device.
    pub fn device(mut self, claim: &str, path: &str) -> Self {
        self.volume(claim, claim);
        let device = VolumeDevice { name: claim.into(), device_path: path.into() };
        self.spec().containers[0].volume_devices.get_or_insert_default().push(device);
        self
    }
    pub fn grace_seconds(mut self, seconds: i64) -> Self {
        self.spec().termination_grace_period_seconds = Some(seconds);
        self
    }
    pub fn build(self) -> Pod {
        self.0
    }
}

/// A class with upstream's defaults: Immediate binding, policy Delete.
pub fn class(name: &str, provisioner: &str) -> ClassBuilder {
    ClassBuilder(StorageClass {
        metadata: named("", name),
        provisioner: provisioner.into(),
        ..Default::default()
    })
}

pub struct ClassBuilder(StorageClass);

impl ClassBuilder {
    pub fn default_class(mut self) -> Self {
        self.0.metadata.annotations.get_or_insert_default().insert(keys::DEFAULT_CLASS.into(), "true".into());
        self
    }
    pub fn wait_for_consumer(mut self) -> Self {
        self.0.volume_binding_mode = Some(volume::WAIT_FOR_FIRST_CONSUMER.into());
        self
    }
    /// Claims of this class may be enlarged.
    pub fn expandable(mut self) -> Self {
        self.0.allow_volume_expansion = Some(true);
        self
    }
    pub fn reclaim(mut self, policy: &str) -> Self {
        self.0.reclaim_policy = Some(policy.into());
        self
    }
    pub fn fs_type(self, fs_type: &str) -> Self {
        self.parameter(keys::FSTYPE_PARAMETER, fs_type)
    }
    pub fn parameter(mut self, key: &str, value: &str) -> Self {
        self.0.parameters.get_or_insert_default().insert(key.into(), value.into());
        self
    }
    pub fn build(self) -> StorageClass {
        self.0
    }
}
