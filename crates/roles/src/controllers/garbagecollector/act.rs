//! One write each, and only to the object that was looked at.

use bowline_machinery::EffectError;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use super::kinds;
use super::model::{Action, Identity, Node, Observed, Owner, Policy, Referred, Stragglers};
use super::role::Collector;

/// The event's reason when an owner cannot be where its dependent is.
const INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";

impl Collector {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        for one in seen.owners.iter().filter(|one| one.owner == Owner::Elsewhere) {
            self.report(&seen.node.identity, &one.reference);
        }
        self.note_absent(seen);
        match action {
            Action::TakeIn => {
                self.take_in(&seen.stragglers);
                Ok(())
            }
            Action::Delete(policy) => self.delete(&seen.node, policy).await,
            Action::Disown(_) | Action::Unblock | Action::RemoveFinalizer(_) => {
                self.patch(&seen.node, patch(&action, &seen.node)).await
            }
        }
    }

    /// Owners of whom the API server said that they are gone need not be asked for again.
    fn note_absent(&self, seen: &Observed) {
        let gone = |one: &&Referred| matches!(one.owner, Owner::Gone | Owner::Elsewhere);
        let kinds = self.shared.kinds();
        for one in seen.owners.iter().filter(gone) {
            if let Some(place) = kinds.place(&seen.node.identity, &one.reference) {
                self.absent.note(place);
            }
        }
    }

    fn take_in(&self, stragglers: &Stragglers) {
        let Stragglers::Found(found) = stragglers else { return };
        for node in found {
            let woken = self.shared.graph().put(node.clone());
            self.shared.wake(woken);
        }
    }

    /// Tells people of a reference that cannot be.
    pub(super) fn report(&self, dependent: &Identity, reference: &OwnerReference) {
        let about = ObjectReference {
            api_version: Some(dependent.kind.api_version.clone()),
            kind: Some(dependent.kind.kind.clone()),
            namespace: (!dependent.namespace.is_empty()).then(|| dependent.namespace.clone()),
            name: Some(dependent.name.clone()),
            uid: Some(dependent.uid.to_string()),
            ..Default::default()
        };
        let namespace = &dependent.namespace;
        let owner = format!(
            "[{}/{}, namespace: {namespace}, name: {}, uid: {}]",
            reference.api_version, reference.kind, reference.name, reference.uid
        );
        let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
        self.recorder.warning_about(about, INVALID_NAMESPACE, message);
    }

    async fn delete(&self, node: &Node, policy: Policy) -> Result<(), EffectError> {
        let identity = &node.identity;
        let preconditions = Preconditions {
            uid: Some(identity.uid.to_string()),
            resource_version: Some(node.version.to_string()),
        };
        let parameters = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(match policy {
                Policy::Background => PropagationPolicy::Background,
                Policy::Foreground => PropagationPolicy::Foreground,
                Policy::Orphan => PropagationPolicy::Orphan,
            }),
            ..DeleteParams::default()
        };
        let api = identity.kind.within(&self.shared.client, &identity.namespace);
        let deletion = api.delete(&identity.name, &parameters);
        match self.effects.run("delete", &describe(identity), deletion).await {
            Ok(answer) => {
                let held = answer.left().and_then(|object| kinds::node(&identity.kind, object.metadata));
                self.note(identity, held.filter(|held| held.deleting));
                Ok(())
            }
            Err(error) if error.not_found() => {
                self.note(identity, None);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn patch(&self, node: &Node, patch: Value) -> Result<(), EffectError> {
        let identity = &node.identity;
        let api = identity.kind.within(&self.shared.client, &identity.namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = api.patch(&identity.name, &parameters, &patch);
        match self.effects.run("patch", &describe(identity), patched).await {
            Ok(answer) => {
                self.note(identity, kinds::node(&identity.kind, answer.metadata));
                Ok(())
            }
            Err(error) if error.not_found() => {
                self.note(identity, None);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the answer to a write into the graph, before the watch brings it.
    fn note(&self, identity: &Identity, left: Option<Node>) {
        let mut graph = self.shared.graph();
        let woken = match left {
            Some(node) => graph.put(node),
            None => {
                graph.deleted(&identity.uid);
                Vec::new()
            }
        };
        drop(graph);
        self.shared.wake(woken);
    }
}

/// A merge patch that a change in between refuses.
pub(super) fn patch(action: &Action, node: &Node) -> Value {
    let version = node.version.to_string();
    let list = |items: Vec<Value>| if items.is_empty() { Value::Null } else { Value::Array(items) };
    match action {
        Action::Disown(uids) => {
            let rest = node.owners.iter().filter(|owner| !uids.contains(&owner.uid));
            let rest = list(rest.map(|owner| json!(owner)).collect());
            json!({"metadata": {"resourceVersion": version, "ownerReferences": rest}})
        }
        Action::Unblock => {
            let free = node.owners.iter().cloned().map(|mut owner| {
                owner.block_owner_deletion = Some(false);
                json!(owner)
            });
            json!({"metadata": {"resourceVersion": version, "ownerReferences": list(free.collect())}})
        }
        Action::RemoveFinalizer(name) => {
            let rest = node.finalizers.iter().filter(|own| own != name).map(|own| json!(own));
            json!({"metadata": {"resourceVersion": version, "finalizers": list(rest.collect())}})
        }
        Action::Delete(_) | Action::TakeIn => Value::Null,
    }
}

/// `configmap default/a`.
fn describe(identity: &Identity) -> String {
    let key = bowline_api::ObjectKey::new(identity.namespace.clone(), identity.name.clone());
    format!("{} {key}", identity.kind.kind.to_lowercase())
}
