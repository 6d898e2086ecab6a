//! From a claim to CreateVolume.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::volume::{BLOCK, claim_access_modes, claim_mode, claim_volume, requested_bytes};
use bowline_api::{Meta, PersistentVolumeClaim, StorageClass, keys, volume};
use bowline_machinery::{Step, capability};
use bowline_proto::csi::v1::{CapacityRange, CreateVolumeRequest, TopologyRequirement, VolumeCapability};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::model::{Action, Claim, Creation, Intent, Naming, Settings, Why};
use super::{ownership, parameters, source, topology};

type Decision = Step<Action, Why>;

pub fn decide(seen: &Claim) -> Decision {
    let attempt = &seen.attempt;
    // What exists in the backend comes first, whatever has become of the claim.
    if attempt.unsaved.is_some() {
        return Step::Do(Action::Save);
    }
    if let Some(made) = &attempt.unusable {
        return Step::Do(Action::Discard { handle: made.handle.clone(), secret: made.secret.clone() });
    }
    match &attempt.stored {
        None => next_call(seen),
        Some(_) if seen.volume_exists => Step::Do(Action::Forget),
        // A volume may exist: only the same call again tells (PROV-1).
        Some(stored) if attempt.open => Step::Do(Action::Create(stored.intent.clone())),
        // Not sent, or refused for good. Only a call that is sent at once stays stored: a successor could not tell that it
        // was not sent, and would make a volume that is not asked for any more.
        Some(stored) => match next_call(seen) {
            Step::Do(Action::Store(intent)) if *intent == *stored.intent => {
                Step::Do(Action::Create(stored.intent.clone()))
            }
            Step::Do(_) | Step::Wait(_) | Step::Fail(_) | Step::Done => Step::Do(Action::Forget),
        },
    }
}

/// What comes next where nothing exists in the backend.
fn next_call(seen: &Claim) -> Decision {
    match &seen.attempt.refused {
        _ if !seen.exists => Step::Done,
        Some(text) => Step::Fail(Why::Refused(text.clone())),
        None => new_volume(seen),
    }
}

/// A claim for which no volume exists.
fn new_volume(seen: &Claim) -> Decision {
    let attempt = &seen.attempt;
    if !claim_volume(&seen.object).is_empty() || wanted_from(&seen.object) != Some(&seen.settings.driver) {
        return Step::Done;
    }
    let Some(class) = &seen.class else {
        let name = volume::claim_class(&seen.object).unwrap_or_default();
        return Step::Wait(Why::ClassMissing(name.to_owned()));
    };
    let selected = selected_node(&seen.object);
    match (&seen.settings.node, selected) {
        (Some(own), Some(node)) if node != own.name => return Step::Done,
        (Some(own), None) => return ownership::decide(seen, class, own),
        (Some(_), Some(_)) | (None, _) => {}
    }
    if volume::waits_for_consumer(class) && selected.is_none() {
        return Step::Wait(Why::NoNodeSelected);
    }
    if seen.volume_exists || class.provisioner != seen.settings.driver {
        return Step::Done;
    }
    if attempt.slow {
        return Step::Wait(Why::Slow);
    }
    if let (Some(text), true) = (&attempt.exhausted, selected.is_some()) {
        return Step::Do(Action::Reschedule(Why::Exhausted(text.clone())));
    }
    match intent(seen, class) {
        Ok(intent) => Step::Do(Action::Store(Box::new(intent))),
        Err(why @ Why::Populator(_)) if attempt.told_populator => Step::Wait(why),
        Err(Why::Populator(_)) => Step::Do(Action::TellPopulator),
        Err(Why::Unprotected) => Step::Do(Action::ProtectSource),
        Err(why @ Why::NodeMissing(_)) => Step::Do(Action::Reschedule(why)),
        Err(why) => Step::Fail(why),
    }
}

/// The call, and what else the volume's object is made from.
fn intent(seen: &Claim, class: &StorageClass) -> Result<Intent, Why> {
    let creation = creation(seen, class)?;
    let metadata = |of: &ObjectMeta| ObjectMeta {
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        uid: of.uid.clone(),
        ..ObjectMeta::default()
    };
    let (claim, spec) = (metadata(&seen.object.metadata), seen.object.spec.clone());
    let claim = PersistentVolumeClaim { metadata: claim, spec, status: None };
    let class = StorageClass {
        metadata: metadata(&class.metadata),
        provisioner: class.provisioner.clone(),
        reclaim_policy: class.reclaim_policy.clone(),
        mount_options: class.mount_options.clone(),
        ..StorageClass::default()
    };
    Ok(Intent { claim: Arc::new(claim), class: Arc::new(class), creation })
}

/// The provisioner that a claim is waiting for.
pub fn wanted_from(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.annotation(keys::STORAGE_PROVISIONER).or_else(|| claim.annotation(keys::STORAGE_PROVISIONER_BETA))
}

/// The node that the scheduler chose.
pub fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    let named = |key| claim.annotation(key).filter(|node| !node.is_empty());
    named(keys::SELECTED_NODE).or_else(|| named(keys::SELECTED_NODE_ALPHA))
}

/// Derived from the UID, so that every repeat means the same volume (PROV-1).
pub fn volume_name(naming: &Naming, claim: &PersistentVolumeClaim) -> String {
    let uid = match naming.uuid_length {
        None => claim.uid().to_owned(),
        Some(length) => claim.uid().chars().filter(|c| *c != '-').take(length).collect(),
    };
    format!("{}-{uid}", naming.prefix)
}

/// All checks before the call, in upstream's order, and the call itself.
pub(super) fn creation(seen: &Claim, class: &StorageClass) -> Result<Creation, Why> {
    let (settings, claim) = (seen.settings.as_ref(), seen.object.as_ref());
    let none = Default::default();
    let given = class.parameters.as_ref().unwrap_or(&none);
    let kind = source::reference(claim)?.map(|source| source.kind);
    check_driver(settings, claim, kind)?;
    if claim.spec.as_ref().is_some_and(|spec| spec.selector.is_some()) {
        return Err(invalid("claim Selector is not supported"));
    }
    if settings.naming.prefix.is_empty() || claim.uid().is_empty() {
        return Err(invalid("volume name prefix and claim UID must not be empty"));
    }
    let name = volume_name(&settings.naming, claim);
    let fs_type = match parameters::fs_type(given).map_err(Why::Invalid)? {
        Some(fs_type) if !fs_type.is_empty() => fs_type,
        Some(_) | None => settings.default_fstype.clone(),
    };
    let volume_capabilities = capabilities(settings, claim, class, &fs_type)?;
    let required_bytes = requested_bytes(claim).map_err(|error| Why::Invalid(error.to_string()))?;
    let volume_content_source = source::content(seen, class)?;
    let accessibility_requirements = requirement(seen, class)?;
    let names = parameters::Names {
        volume: &name,
        claim_namespace: claim.namespace(),
        claim_name: claim.name(),
        annotations: claim.metadata.annotations.as_ref(),
    };
    let secrets = parameters::secrets(given, &names).map_err(Why::Invalid)?;
    let mut parameters = parameters::for_driver(given).map_err(Why::Invalid)?;
    if settings.extra_create_metadata {
        parameters.insert(keys::CLAIM_NAME_PARAMETER.into(), claim.name().into());
        parameters.insert(keys::CLAIM_NAMESPACE_PARAMETER.into(), claim.namespace().into());
        parameters.insert(keys::VOLUME_NAME_PARAMETER.into(), name.clone());
    }
    let request = CreateVolumeRequest {
        name,
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
        volume_capabilities,
        parameters,
        volume_content_source,
        accessibility_requirements,
        mutable_parameters: mutable_parameters(seen)?,
        ..CreateVolumeRequest::default()
    };
    Ok(Creation { request, secrets, fs_type })
}

fn mutable_parameters(seen: &Claim) -> Result<BTreeMap<String, String>, Why> {
    let name = volume::claim_attributes_class(&seen.object);
    let driver = &seen.settings.driver;
    match &seen.attributes {
        _ if name.is_empty() => Ok(BTreeMap::new()),
        None => Err(Why::Invalid(format!("volumeattributesclass.storage.k8s.io \"{name}\" not found"))),
        Some(class) if class.driver_name != *driver => Err(Why::Invalid(format!(
            "VAC {name} referenced in PVC is for driver {} which does not match driver name {driver}",
            class.driver_name
        ))),
        Some(class) => Ok(class.parameters.clone().unwrap_or_default()),
    }
}

/// What the driver must be able to do for this claim.
fn check_driver(settings: &Settings, claim: &PersistentVolumeClaim, source: Option<&str>) -> Result<(), Why> {
    let attributes = !volume::claim_attributes_class(claim).is_empty();
    let lacks = match () {
        () if !settings.controller => "dynamic provisioning: plugin CONTROLLER_SERVICE",
        () if !settings.creates => "dynamic provisioning: controller CREATE_DELETE_VOLUME",
        () if source == Some(source::SNAPSHOT) && !settings.restores => {
            "snapshot restore: controller CREATE_DELETE_SNAPSHOT"
        }
        () if source == Some(source::CLAIM) && !settings.clones => {
            "clone operations: controller CLONE_VOLUME"
        }
        () if attributes && !settings.modifies => "VolumeAttributesClass: controller MODIFY_VOLUME",
        () => return Ok(()),
    };
    Err(Why::Invalid(format!("CSI driver does not support {lacks} capability is not reported")))
}

/// One capability per access mode: the driver sees each of them.
fn capabilities(
    settings: &Settings,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    fs_type: &str,
) -> Result<Vec<VolumeCapability>, Why> {
    let options = class.mount_options.as_deref().unwrap_or_default();
    let capability = |mode: &String| {
        let mode = capability::access_mode(std::slice::from_ref(mode), settings.single_node)?;
        Ok(if claim_mode(claim) == BLOCK {
            capability::block(mode)
        } else {
            capability::mount(mode, fs_type, options)
        })
    };
    claim_access_modes(claim).iter().map(capability).collect::<Result<_, String>>().map_err(Why::Invalid)
}

/// The topology that fits now.
fn requirement(seen: &Claim, class: &StorageClass) -> Result<Option<TopologyRequirement>, Why> {
    if !seen.settings.topology {
        return Ok(None);
    }
    let request = topology::Request {
        driver: &seen.settings.driver,
        claim: seen.object.name(),
        selected: selected_node(&seen.object),
        allowed: class.allowed_topologies.as_deref().unwrap_or_default(),
        strict: seen.settings.strict_topology,
        immediate: seen.settings.immediate_topology,
    };
    topology::requirement(&request, &seen.cluster)
}

fn invalid(text: &str) -> Why {
    Why::Invalid(text.to_owned())
}
