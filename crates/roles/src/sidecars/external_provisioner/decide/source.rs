//! What a volume starts from: the volume of another claim, or a snapshot (`restore`).

use bowline_api::snapshot::GROUP;
use bowline_api::volume::{BLOCK, BOUND, claim_mode, claim_phase, claim_ref, csi, requested_bytes};
use bowline_api::volume::{refers_to, volume_mode, volume_phase};
use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, StorageClass, keys, volume};
use bowline_machinery::Step;
use bowline_proto::csi::v1::VolumeContentSource;
use bowline_proto::csi::v1::volume_content_source::{Type, VolumeSource};

use super::super::model::{Action, Claim, Source, SourceClaim, SourceSnapshot, Why};
use super::restore;

/// Kinds of data sources that a provisioner handles; all others belong to populators.
pub const CLAIM: &str = "PersistentVolumeClaim";
pub const SNAPSHOT: &str = "VolumeSnapshot";

/// The data source of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    pub kind: &'a str,
    pub name: &'a str,
}

/// `dataSource` wins over `dataSourceRef`.
pub fn reference(claim: &PersistentVolumeClaim) -> Result<Option<Reference<'_>>, Why> {
    let Some(spec) = &claim.spec else { return Ok(None) };
    let (kind, name, group) = match (&spec.data_source, &spec.data_source_ref) {
        (Some(source), _) => (&source.kind, &source.name, &source.api_group),
        (None, Some(source)) if source.namespace.as_ref().is_some_and(|ns| !ns.is_empty()) => {
            return Err(invalid(
                "dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled",
            ));
        }
        (None, Some(source)) => (&source.kind, &source.name, &source.api_group),
        (None, None) => return Ok(None),
    };
    match kind.as_str() {
        _ if name.is_empty() => {
            Err(Why::Invalid(format!("the PVC source not found for PVC {}", claim.name())))
        }
        CLAIM => Ok(Some(Reference { kind, name })),
        SNAPSHOT if group.as_deref() == Some(GROUP) => Ok(Some(Reference { kind, name })),
        SNAPSHOT => Err(Why::Invalid(format!(
            "the PVC source does not belong to the right APIGroup. Expected {GROUP}, Got {}",
            group.as_deref().unwrap_or_default()
        ))),
        _ => Err(Why::Populator(kind.clone())),
    }
}

/// The claim that another one is cloned from.
pub fn cloned_from(claim: &PersistentVolumeClaim) -> Option<ObjectKey> {
    let source = reference(claim).ok().flatten().filter(|source| source.kind == CLAIM)?;
    Some(ObjectKey::new(claim.namespace(), source.name))
}

/// The snapshot that a claim is restored from.
pub fn restored_from(claim: &PersistentVolumeClaim) -> Option<ObjectKey> {
    let source = reference(claim).ok().flatten().filter(|source| source.kind == SNAPSHOT)?;
    Some(ObjectKey::new(claim.namespace(), source.name))
}

/// What the driver is told. The source must be usable now, and kept from going away while it is copied.
pub fn content(seen: &Claim, class: &StorageClass) -> Result<Option<VolumeContentSource>, Why> {
    let Some(reference) = reference(&seen.object)? else { return Ok(None) };
    let Reference { kind, name } = reference;
    let found = match &seen.source {
        Source::Claim { claim, volume } => clone(seen, class, name, claim.as_deref(), volume.as_deref()),
        Source::Snapshot { snapshot, content, .. } => {
            restore::content(seen, class, name, snapshot.as_deref(), content.as_deref())
        }
        Source::None => Err("it was not read".to_owned()),
    };
    let text =
        |why| Why::Invalid(format!("error getting handle for DataSource Type {kind} by Name {name}: {why}"));
    let content = found.map_err(text)?;
    if protected(&seen.source) {
        Ok(Some(VolumeContentSource { r#type: Some(content) }))
    } else {
        Err(Why::Unprotected)
    }
}

fn protected(source: &Source) -> bool {
    match source {
        Source::None => true,
        Source::Claim { claim, .. } => {
            claim.as_ref().is_some_and(|claim| claim.has_finalizer(keys::CLONING_PROTECTION))
        }
        Source::Snapshot { snapshot, may_protect, .. } => {
            !may_protect || snapshot.as_ref().is_some_and(|s| s.has_finalizer(keys::RESTORE_PROTECTION))
        }
    }
}

fn clone(
    seen: &Claim,
    class: &StorageClass,
    name: &str,
    source: Option<&PersistentVolumeClaim>,
    volume: Option<&PersistentVolume>,
) -> Result<Type, String> {
    let claim = seen.object.as_ref();
    let Some(source) = source else {
        return Err(format!(
            "error getting PVC {name} (namespace \"{}\") from api server: persistentvolumeclaim \"{name}\" not found",
            claim.namespace()
        ));
    };
    if claim_phase(source) != BOUND {
        let phase = claim_phase(source);
        return Err(format!("the PVC DataSource {name} must have a status of Bound.  Got {phase}"));
    }
    if source.deleting() {
        return Err(format!("the PVC DataSource {name} is currently being deleted"));
    }
    let class_named = |claim: &PersistentVolumeClaim| {
        claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some())
    };
    if !class_named(source) {
        return Err(format!("the source PVC ({name}) storageclass cannot be empty"));
    }
    if !class_named(claim) {
        return Err(format!("the requested PVC ({}) storageclass cannot be empty", claim.name()));
    }
    let bytes = |claim| requested_bytes(claim).map_err(|error| error.to_string());
    let (wanted, least) = (bytes(claim)?, bytes(source)?);
    if wanted < least {
        return Err(format!(
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, requested {wanted} but source is {least}"
        ));
    }
    let handle = volume.and_then(|volume| bound_handle(class, source, volume));
    let (Some(volume), Some(handle)) = (volume, handle) else {
        return Err("claim in dataSource not bound or invalid".to_owned());
    };
    same_mode(claim, volume)?;
    Ok(Type::Volume(VolumeSource { volume_id: handle }))
}

/// The driver's name for the volume that this claim, and no other, has.
fn bound_handle(
    class: &StorageClass,
    source: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Option<String> {
    let csi = csi(volume).filter(|csi| csi.driver == class.provisioner)?;
    let by_uid = |uid: &Option<String>| uid.as_deref() == Some(source.uid());
    let bound = claim_ref(volume).is_some_and(|by| refers_to(by, source) && by_uid(&by.uid));
    (bound && volume_phase(volume) == volume::BOUND).then(|| csi.volume_handle.clone())
}

fn same_mode(claim: &PersistentVolumeClaim, source: &PersistentVolume) -> Result<(), String> {
    let name = |block| if block { "Block" } else { "Filesystem" };
    let (wanted, has) = (claim_mode(claim) == BLOCK, volume_mode(source) == BLOCK);
    if wanted == has {
        return Ok(());
    }
    Err(format!(
        "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is {}, but new PVC requested {}",
        name(has),
        name(wanted)
    ))
}

/// A source that is being deleted goes once no claim is cloned from it any more.
pub fn decide(seen: &SourceClaim) -> Step<Action, Why> {
    let object = seen.object.as_ref();
    if !object.deleting() || !object.has_finalizer(keys::CLONING_PROTECTION) || seen.foreign {
        return Step::Done;
    }
    match &seen.clone {
        Some(clone) => Step::Wait(Why::Cloning(clone.clone())),
        None if !seen.intents_read => Step::Wait(Why::IntentsUnread),
        None => Step::Do(Action::ReleaseSource),
    }
}

/// A snapshot is released once nothing is restored from it: snapshot-controller waits for that.
pub fn decide_snapshot(seen: &SourceSnapshot) -> Step<Action, Why> {
    if !seen.object.has_finalizer(keys::RESTORE_PROTECTION) || seen.foreign {
        return Step::Done;
    }
    match &seen.restore {
        Some(claim) => Step::Wait(Why::Restoring(claim.clone())),
        None if !seen.intents_read => Step::Wait(Why::IntentsUnread),
        None => Step::Do(Action::ReleaseSnapshot),
    }
}

fn invalid(text: &str) -> Why {
    Why::Invalid(text.to_owned())
}
