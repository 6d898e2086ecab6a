//! Decision tables (reference kube-core.md 1.3 to 1.11 and 9.1) and the properties behind BIND-1 and BIND-2.

mod claims;
mod matching;
mod model;
mod volumes;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, StorageClass, build, keys, volume};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolumeClaimStatus, PersistentVolumeSpec,
    PersistentVolumeStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

use super::model::{Action, ClaimSeen, VolumeSeen};

const DRIVER: &str = "local.example.com";

/// A claim of class `fast`, Pending, UID `uid-<name>`.
#[derive(Debug)]
struct Claim(PersistentVolumeClaim);

fn claim(name: &str) -> Claim {
    let mut claim = build::claim(name).class("fast").build();
    claim.metadata.uid = Some(format!("uid-{name}"));
    claim.status =
        Some(PersistentVolumeClaimStatus { phase: Some(volume::PENDING.into()), ..Default::default() });
    Claim(claim)
}

impl Claim {
    fn spec(&mut self) -> &mut k8s_openapi::api::core::v1::PersistentVolumeClaimSpec {
        self.0.spec.get_or_insert_default()
    }
    fn class(mut self, class: Option<&str>) -> Self {
        self.spec().storage_class_name = class.map(String::from);
        self
    }
    fn size(mut self, size: &str) -> Self {
        let requests = BTreeMap::from([(volume::STORAGE.to_owned(), Quantity(size.into()))]);
        self.spec().resources.get_or_insert_default().requests = Some(requests);
        self
    }
    fn modes(mut self, modes: &[&str]) -> Self {
        self.spec().access_modes = Some(modes.iter().map(|m| String::from(*m)).collect());
        self
    }
    fn block(mut self) -> Self {
        self.spec().volume_mode = Some(volume::BLOCK.into());
        self
    }
    fn selecting(mut self, key: &str, value: &str) -> Self {
        let match_labels = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
        self.spec().selector = Some(LabelSelector { match_labels, match_expressions: None });
        self
    }
    fn naming(mut self, volume: &str) -> Self {
        self.spec().volume_name = Some(volume.into());
        self
    }
    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.0.set_annotation(key, value);
        self
    }
    /// Named and linked, status as given.
    fn complete(self, volume: &str) -> Self {
        self.naming(volume).annotated(keys::BIND_COMPLETED, keys::YES)
    }
    fn phase(mut self, phase: &str) -> Self {
        self.0.status.get_or_insert_default().phase = Some(phase.into());
        self
    }
    /// Shows what a volume of this test has.
    fn showing(mut self, size: &str) -> Self {
        let status = self.0.status.get_or_insert_default();
        status.access_modes = Some(vec![volume::READ_WRITE_ONCE.into()]);
        status.capacity = Some([(volume::STORAGE.to_owned(), Quantity(size.into()))].into());
        self
    }
    fn deleting(mut self) -> Self {
        self.0.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        self
    }
    fn seen(self) -> ClaimSeen {
        ClaimSeen {
            claim: Arc::new(self.0),
            named: None,
            candidates: Vec::new(),
            class: Some(Arc::new(build::class("fast", DRIVER).build())),
            default_class: None,
            pods: Vec::new(),
            provisioning: true,
        }
    }
}

impl ClaimSeen {
    fn named(mut self, volume: Volume) -> Self {
        self.named = Some(Arc::new(volume.0));
        self
    }
    fn near(mut self, volumes: impl IntoIterator<Item = Volume>) -> Self {
        self.candidates.extend(volumes.into_iter().map(|v| Arc::new(v.0)));
        self
    }
    fn with_class(mut self, class: Option<StorageClass>) -> Self {
        self.class = class.map(Arc::new);
        self
    }
    fn default_class(mut self, name: &str) -> Self {
        self.default_class = Some(name.into());
        self
    }
}

/// A free CSI volume of class `fast`, 1 GiB, ReadWriteOnce, policy Delete.
#[derive(Debug)]
struct Volume(PersistentVolume);

fn volume(name: &str) -> Volume {
    let csi =
        CSIPersistentVolumeSource { driver: DRIVER.into(), volume_handle: name.into(), ..Default::default() };
    let spec = PersistentVolumeSpec {
        access_modes: Some(vec![volume::READ_WRITE_ONCE.into()]),
        capacity: Some([(volume::STORAGE.to_owned(), Quantity("1Gi".into()))].into()),
        csi: Some(csi),
        persistent_volume_reclaim_policy: Some(volume::DELETE.into()),
        storage_class_name: Some("fast".into()),
        ..Default::default()
    };
    let mut new = PersistentVolume { spec: Some(spec), ..Default::default() };
    new.metadata.name = Some(name.into());
    new.status = Some(PersistentVolumeStatus { phase: Some(volume::AVAILABLE.into()), ..Default::default() });
    Volume(new)
}

impl Volume {
    fn spec(&mut self) -> &mut PersistentVolumeSpec {
        self.0.spec.get_or_insert_default()
    }
    fn class(mut self, class: &str) -> Self {
        self.spec().storage_class_name = Some(class.into());
        self
    }
    fn size(mut self, size: &str) -> Self {
        self.spec().capacity = Some([(volume::STORAGE.to_owned(), Quantity(size.into()))].into());
        self
    }
    fn modes(mut self, modes: &[&str]) -> Self {
        self.spec().access_modes = Some(modes.iter().map(|m| String::from(*m)).collect());
        self
    }
    fn block(mut self) -> Self {
        self.spec().volume_mode = Some(volume::BLOCK.into());
        self
    }
    fn policy(mut self, policy: &str) -> Self {
        self.spec().persistent_volume_reclaim_policy = Some(policy.into());
        self
    }
    fn without_source(mut self) -> Self {
        self.spec().csi = None;
        self
    }
    fn labelled(mut self, key: &str, value: &str) -> Self {
        self.0.meta_mut().labels.get_or_insert_default().insert(key.into(), value.into());
        self
    }
    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.0.set_annotation(key, value);
        self
    }
    fn finalized(mut self, finalizer: &str) -> Self {
        self.0.add_finalizer(finalizer);
        self
    }
    fn phase(mut self, phase: &str) -> Self {
        self.0.status.get_or_insert_default().phase = Some(phase.into());
        self
    }
    fn deleting(mut self) -> Self {
        self.0.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        self
    }
    /// Refers to a claim by name and this UID; an empty one is a person's reservation.
    fn reserved_as(mut self, claim: &str, uid: &str) -> Self {
        self.spec().claim_ref = Some(ObjectReference {
            namespace: Some("default".into()),
            name: Some(claim.into()),
            uid: (!uid.is_empty()).then(|| uid.to_owned()),
            ..Default::default()
        });
        self
    }
    fn reserved_for(self, claim: &str) -> Self {
        let uid = format!("uid-{claim}");
        self.reserved_as(claim, &uid)
    }
    fn bound_to(self, claim: &str) -> Self {
        self.reserved_for(claim).phase(volume::BOUND)
    }
    fn seen(self, claim: Option<Claim>) -> VolumeSeen {
        VolumeSeen { volume: Arc::new(self.0), claim: claim.map(|c| Arc::new(c.0)) }
    }
}

fn reserve(volume: &str) -> Action {
    Action::Reserve { volume: volume.into() }
}
