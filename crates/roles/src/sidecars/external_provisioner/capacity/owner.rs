//! Who the objects belong to: the pod of this process, or a controller above it.

use bowline_api::{Meta, Pod};
use bowline_machinery::effect::{EffectError, Effects};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Walks up from the pod. The controller of the last object that is read is named by a reference, so that no right to read
/// the controller is needed.
pub(super) async fn find(
    effects: &Effects,
    namespace: &str,
    pod: &str,
    levels: i64,
) -> Result<OwnerReference, EffectError> {
    let missing =
        |kind: &str, name: &str| EffectError::refused(format!("{kind} {namespace}/{name} not found"));
    let found: Pod = effects.get_live(namespace, pod).await?.ok_or_else(|| missing("pod", pod))?;
    let of_pod = OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: pod.into(),
        uid: found.uid().into(),
        ..OwnerReference::default()
    };
    if levels == 0 {
        return Ok(controlling(of_pod));
    }
    let mut owner = controller(&found, "pod")?;
    for _ in 1..levels {
        if owner.kind != "ReplicaSet" {
            let OwnerReference { kind, name, .. } = owner;
            return Err(EffectError::refused(format!(
                "cannot look up the owner of {kind} {namespace}/{name}; lower --capacity-ownerref-level"
            )));
        }
        let name = owner.name.clone();
        let set: Option<ReplicaSet> = effects.get_live(namespace, &name).await?;
        owner = controller(&set.ok_or_else(|| missing("replicaset", &name))?, "replicaset")?;
    }
    Ok(controlling(owner))
}

fn controller(object: &impl Meta, kind: &str) -> Result<OwnerReference, EffectError> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true)).cloned();
    controller.ok_or_else(|| {
        EffectError::refused(format!(
            "{kind} {} has no controlling owner, cannot unwind the ownership further; lower --capacity-ownerref-level",
            object.key()
        ))
    })
}

/// As upstream writes it: a controller that does not block the deletion of its owner.
fn controlling(owner: OwnerReference) -> OwnerReference {
    OwnerReference { controller: Some(true), block_owner_deletion: None, ..owner }
}
