//! From a released volume to DeleteVolume, and the finalizer that keeps its object until then.

use bowline_api::volume::{BOUND, DELETE, RELEASED, reclaim_policy, volume_phase};
use bowline_api::{Meta, Node, PersistentVolume, keys, selector, volume};
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::SecretReference;

use super::super::model::{Action, OwnNode, Volume, Why};
use super::parameters::{Names, provisioner_secret};

type Decision = Step<Action, Why>;

pub fn decide(seen: &Volume) -> Decision {
    let object = seen.object.as_ref();
    let guarded = object.has_finalizer(keys::PROVISIONER_FINALIZER);
    let delete = reclaim_policy(object) == DELETE;
    if !ours(&seen.settings.driver, object) {
        return Step::Done;
    }
    if !delete {
        // PROV-3: whoever keeps the volume may delete the object without us.
        return if guarded { Step::Do(Action::RemoveFinalizer) } else { Step::Done };
    }
    if !guarded && !object.deleting() && volume_phase(object) == BOUND {
        return Step::Do(Action::AddFinalizer);
    }
    if volume_phase(object) != RELEASED || (object.deleting() && !guarded) {
        return Step::Done;
    }
    if seen.settings.node.as_ref().is_some_and(|own| !is_here(own, object)) {
        return Step::Done;
    }
    match (seen.deleted, object.deleting()) {
        (false, _) => delete_volume(seen),
        (true, false) => Step::Do(Action::DeleteObject),
        (true, true) => Step::Do(Action::RemoveFinalizer),
    }
}

/// Made by our provisioner, or static and of our driver.
pub fn ours(driver: &str, object: &PersistentVolume) -> bool {
    match object.annotation(keys::PROVISIONED_BY) {
        Some(by) => by == driver,
        None => volume::csi(object).is_some_and(|csi| csi.driver == driver),
    }
}

/// Whether a volume can be reached from this node: the provisioner of another one deletes it otherwise.
fn is_here(own: &OwnNode, object: &PersistentVolume) -> bool {
    let mut node = Node::default();
    node.metadata.labels = Some(own.segment.clone());
    selector::volume_reachable(object, &node)
}

fn delete_volume(seen: &Volume) -> Decision {
    let Some(csi) = volume::csi(&seen.object) else {
        return refuse(Why::Invalid("invalid CSI PV: it has no csi source".into()));
    };
    if !seen.settings.creates {
        return refuse(Why::Invalid("CSI driver does not support deleting volumes".into()));
    }
    // An attachment in any state: the driver may still have it published. Upstream calls that a failure and tries
    // again later; here the end of the attachment wakes us, so it is an ordinary wait.
    if let Some(node) = &seen.attached_to {
        let volume = seen.object.name().to_owned();
        return Step::Wait(Why::StillAttached { volume, node: node.clone() });
    }
    match secret(seen) {
        Ok(secret) => Step::Do(Action::Delete { handle: csi.volume_handle.clone(), secret }),
        Err(text) => refuse(Why::Invalid(text)),
    }
}

/// Annotations say it all when they are there; else the class is asked, as for volumes of older versions.
fn secret(seen: &Volume) -> Result<Option<SecretReference>, String> {
    let object = seen.object.as_ref();
    let annotated = |key| object.annotation(key).map(String::from);
    let noted = (annotated(keys::DELETION_SECRET_NAME), annotated(keys::DELETION_SECRET_NAMESPACE));
    if let (Some(name), Some(namespace)) = noted {
        let named = !name.is_empty() && !namespace.is_empty();
        return Ok(named.then_some(SecretReference { name: Some(name), namespace: Some(namespace) }));
    }
    let (Some(class), Some(claim)) = (&seen.class, volume::claim_ref(object)) else { return Ok(None) };
    let names = Names {
        volume: object.name(),
        claim_namespace: claim.namespace.as_deref().unwrap_or_default(),
        claim_name: claim.name.as_deref().unwrap_or_default(),
        annotations: None,
    };
    provisioner_secret(class.parameters.as_ref().unwrap_or(&Default::default()), &names)
}

fn refuse(why: Why) -> Decision {
    Step::Fail(why)
}
