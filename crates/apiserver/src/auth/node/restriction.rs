//! NodeRestriction: what a kubelet may write. Its own node, its own pods' status, its own lease and CSINode, tokens for
//! its own pods; and no label that would draw other people's pods to it.

use std::collections::BTreeSet;

use bowline_api::keys;
use serde_json::Value;

use super::references;
use crate::admission::{Admission, AdmissionRequest, Lister, Operation};
use crate::auth::attributes::ResourceAttributes;
use crate::json::same;
use crate::metadata;
use crate::status::{Resource, Status};

/// The admission plugin.
pub struct NodeRestriction;

impl Admission for NodeRestriction {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        check(request, object, lister)
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if request.operation == Operation::Delete { check(request, object, lister) } else { Ok(()) }
    }
}

/// A refusal in words; the two that are no matter of permission come as they are.
enum Refusal {
    Forbidden(String),
    Other(Status),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Forbidden(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self::Forbidden(why.into())
    }
}

type Checked = Result<(), Refusal>;

fn check(request: &AdmissionRequest<'_>, object: &Value, lister: &dyn Lister) -> Result<(), Status> {
    let Some(node) = request.user.node() else { return Ok(()) };
    let checked = match (request.group, request.plural) {
        _ if node.is_empty() => {
            Err(format!("could not determine node from user {:?}", request.user.name).into())
        }
        ("", "pods") => pod(node, request, object, lister),
        ("", "nodes") => own_node(node, request, object),
        ("", "persistentvolumeclaims") => claim(node, request, object),
        ("", "serviceaccounts") => token(node, request, object, lister),
        ("coordination.k8s.io", "leases") => lease(node, request),
        ("storage.k8s.io", "csinodes") if request.name != node => {
            Err("can only access CSINode with the same name as the requesting node".into())
        }
        ("resource.k8s.io", "resourceslices") => slice(node, request, object),
        _ => Ok(()),
    };
    checked.map_err(|refusal| match refusal {
        Refusal::Other(status) => status,
        Refusal::Forbidden(why) => {
            let resource = Resource { group: request.group, plural: request.plural };
            Status::forbidden(resource, request.name, &why)
        }
    })
}

/// Upstream's word for an operation.
fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

fn unexpected(request: &AdmissionRequest<'_>) -> Checked {
    Err(format!("unexpected operation {:?}", word(request.operation)).into())
}

fn node_name(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

fn pod(node: &str, request: &AdmissionRequest<'_>, object: &Value, lister: &dyn Lister) -> Checked {
    match (request.subresource, request.operation, request.old) {
        ("", Operation::Create, _) => mirror_pod(node, object, lister),
        ("", Operation::Delete, _) if node_name(object) == node => Ok(()),
        ("", Operation::Delete, _) => {
            Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself").into())
        }
        ("", Operation::Update, _) => {
            let operation = word(request.operation);
            Err(format!(
                "unexpected operation {operation:?}, node {node:?} can only create and delete mirror pods"
            )
            .into())
        }
        ("status", Operation::Update, Some(old)) => pod_status(node, object, old),
        ("eviction", Operation::Create, _) => {
            let found = lister.get("", "pods", request.namespace, request.name);
            match found {
                None => Err(missing("pods", request.name)),
                Some(pod) if node_name(&pod) != node => {
                    Err(format!("node {node} can only evict pods with spec.nodeName set to itself").into())
                }
                Some(_) => Ok(()),
            }
        }
        ("status", ..) => unexpected(request),
        (other, ..) => {
            let why =
                format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed");
            Err(why.into())
        }
    }
}

fn missing(plural: &str, name: &str) -> Refusal {
    Refusal::Other(Status::not_found(Resource { group: "", plural }, name))
}

/// A kubelet shows the pods that it runs on its own account, and nothing else; they may refer to nothing.
fn mirror_pod(node: &str, pod: &Value, lister: &dyn Lister) -> Checked {
    let mirror = keys::MIRROR_POD;
    if pod["metadata"]["annotations"].get(mirror).is_none() {
        return Err(format!(
            "pod does not have {mirror:?} annotation, node {node:?} can only create mirror pods"
        )
        .into());
    }
    if node_name(pod) != node {
        return Err(format!("node {node:?} can only create pods with spec.nodeName set to itself").into());
    }
    let owners = pod["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let can_only =
        |what: &str| Err(format!("node {node:?} can only create pods with {what} set to itself").into());
    let owner = match owners {
        [] => return can_only("an owner reference"),
        [owner] => owner,
        _ => return can_only("a single owner reference"),
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return can_only("an owner reference");
    }
    if owner["controller"] != true {
        return can_only("a controller owner reference");
    }
    if owner["blockOwnerDeletion"] == true {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference").into());
    }
    let Some(stored) = lister.get("", "nodes", "", node) else { return Err(missing("nodes", node)) };
    let (named, own) = (owner["uid"].as_str().unwrap_or_default(), metadata::text(&stored, "uid"));
    if named != own {
        return Err(format!("node {node} UID mismatch: expected {named} got {own}").into());
    }
    match references::api_objects(pod) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(format!("node {node:?} can not create pods that reference {what}").into()),
        Err(why) => Err(format!("error checking mirror pod for API references: {why}").into()),
    }
}

fn pod_status(node: &str, new: &Value, old: &Value) -> Checked {
    if node_name(old) != node {
        let why =
            format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself");
        return Err(why.into());
    }
    if !same(&new["metadata"]["labels"], &old["metadata"]["labels"]) {
        return Err(format!("node {node:?} cannot update labels through pod status").into());
    }
    let (new, old) = (&new["status"], &old["status"]);
    if !same(&new["resourceClaimStatuses"], &old["resourceClaimStatuses"]) {
        return Err(format!("node {node:?} cannot update resource claim statues").into());
    }
    if !same(&new["extendedResourceClaimStatus"], &old["extendedResourceClaimStatus"]) {
        return Err(format!("node {node:?} cannot update extended resource claim status").into());
    }
    Ok(())
}

fn own_node(node: &str, request: &AdmissionRequest<'_>, object: &Value) -> Checked {
    if request.name != node {
        return Err(format!("node {node:?} is not allowed to modify node {:?}", request.name).into());
    }
    match (request.operation, request.old) {
        (Operation::Create, _) => {
            if !object["spec"]["configSource"].is_null() {
                let why = format!("node {node:?} is not allowed to create pods with a non-nil configSource");
                return Err(why.into());
            }
            match forbidden_labels(object, &Value::Null) {
                labels if labels.is_empty() => Ok(()),
                labels => {
                    Err(format!("node {node:?} is not allowed to set the following labels: {labels}").into())
                }
            }
        }
        (Operation::Update, Some(old)) => node_update(node, object, old),
        _ => Ok(()),
    }
}

fn node_update(node: &str, new: &Value, old: &Value) -> Checked {
    let source = |node: &Value| node["spec"]["configSource"].clone();
    if !source(new).is_null() && source(new) != source(old) {
        let why =
            format!("node {node:?} is not allowed to update configSource to a new non-nil configSource");
        return Err(why.into());
    }
    if !same(&new["spec"]["taints"], &old["spec"]["taints"]) {
        return Err(format!("node {node:?} is not allowed to modify taints").into());
    }
    if !same(&new["metadata"]["ownerReferences"], &old["metadata"]["ownerReferences"]) {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences").into());
    }
    match forbidden_labels(new, old) {
        labels if labels.is_empty() => Ok(()),
        labels => Err(format!("is not allowed to modify labels: {labels}").into()),
    }
}

/// Labels that differ and are not the kubelet's to set, sorted and joined.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let (new, old) = (&new["metadata"]["labels"], &old["metadata"]["labels"]);
    let names = |labels: &Value| -> Vec<String> {
        labels.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
    };
    let all: BTreeSet<String> = names(new).into_iter().chain(names(old)).collect();
    let changed = all.into_iter().filter(|name| new.get(name) != old.get(name));
    changed.filter(|name| !keys::is_kubelet_label(name)).collect::<Vec<_>>().join(", ")
}

/// Only what a finished expansion changes.
fn claim(node: &str, request: &AdmissionRequest<'_>, object: &Value) -> Checked {
    if request.subresource != "status" {
        return Err("may only update PVC status".into());
    }
    let (Operation::Update, Some(old)) = (request.operation, request.old) else { return unexpected(request) };
    let bare = |claim: &Value| {
        let mut claim = claim.clone();
        for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            claim["status"].as_object_mut().map(|status| status.remove(field));
        }
        metadata::set(&mut claim, "resourceVersion", None);
        metadata::set(&mut claim, "managedFields", None);
        claim
    };
    if bare(object) == bare(old) {
        return Ok(());
    }
    Err(format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
    )
    .into())
}

fn lease(node: &str, request: &AdmissionRequest<'_>) -> Checked {
    let leases = keys::NODE_LEASE_NAMESPACE;
    if request.namespace != leases {
        return Err(format!("can only access leases in the {leases:?} system namespace").into());
    }
    if request.name != node {
        return Err("can only access node lease with the same name as the requesting node".into());
    }
    Ok(())
}

fn slice(node: &str, request: &AdmissionRequest<'_>, object: &Value) -> Checked {
    let verb = match request.operation {
        Operation::Update => return Ok(()),
        _ if node_name(object) == node => return Ok(()),
        Operation::Create => "create",
        Operation::Delete => "delete",
    };
    Err(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node").into())
}

/// Tokens are for the pods of this node, and for audiences that those pods ask for.
fn token(node: &str, request: &AdmissionRequest<'_>, object: &Value, lister: &dyn Lister) -> Checked {
    if request.operation != Operation::Create || request.subresource != "token" {
        return Ok(());
    }
    let bound = &object["spec"]["boundObjectRef"];
    let text = |field: &str| bound[field].as_str().unwrap_or_default();
    if text("apiVersion") != "v1" || text("kind") != "Pod" || text("name").is_empty() {
        return Err("node requested token not bound to a pod".into());
    }
    if text("uid").is_empty() {
        return Err("node requested token with a pod binding without a uid".into());
    }
    let Some(pod) = lister.get("", "pods", request.namespace, text("name")) else {
        return Err(missing("pods", text("name")));
    };
    if text("uid") != metadata::text(&pod, "uid") {
        return Err(format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            text("uid")
        )
        .into());
    }
    if node_name(&pod) != node {
        return Err("node requested token bound to a pod scheduled on a different node".into());
    }
    audience(request, &object["spec"]["audiences"], &pod, lister)
}

fn audience(request: &AdmissionRequest<'_>, audiences: &Value, pod: &Value, lister: &dyn Lister) -> Checked {
    let audience = match audiences.as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Err("node may only request 0 or 1 audiences".into()),
    };
    if pod_audiences(pod, request.namespace, lister).contains(audience) {
        return Ok(());
    }
    let asked = ResourceAttributes {
        verb: "request-serviceaccounts-token-audience".into(),
        version: "v1".into(),
        resource: audience.into(),
        namespace: request.namespace.into(),
        name: request.name.into(),
        ..ResourceAttributes::default()
    };
    if lister.access().is_some_and(|access| access.authorizer().allows(request.user, asked)) {
        return Ok(());
    }
    let user = &request.user.name;
    Err(format!(
        "audience {audience:?} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
    )
    .into())
}

/// Audiences of the tokens that a pod's volumes, or their drivers, ask for.
fn pod_audiences(pod: &Value, namespace: &str, lister: &dyn Lister) -> BTreeSet<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = BTreeSet::new();
    for volume in list(&pod["spec"]["volumes"]) {
        for source in list(&volume["projected"]["sources"]) {
            if !source["serviceAccountToken"].is_null() {
                found.insert(text(&source["serviceAccountToken"]["audience"]));
            }
        }
        let claim = match (&volume["ephemeral"], &volume["persistentVolumeClaim"]["claimName"]) {
            (Value::Null, name) => text(name),
            (_, _) => format!("{}-{}", metadata::name(pod), text(&volume["name"])),
        };
        let driver = match volume["csi"]["driver"].as_str() {
            Some(driver) => Some(driver.to_owned()),
            None => claim_driver(namespace, &claim, lister),
        };
        let Some(driver) = driver.and_then(|driver| lister.get("storage.k8s.io", "csidrivers", "", &driver))
        else {
            continue;
        };
        found.extend(list(&driver["spec"]["tokenRequests"]).iter().map(|wanted| text(&wanted["audience"])));
    }
    found
}

fn claim_driver(namespace: &str, claim: &str, lister: &dyn Lister) -> Option<String> {
    let claim = lister.get("", "persistentvolumeclaims", namespace, claim)?;
    let volume = lister.get("", "persistentvolumes", "", claim["spec"]["volumeName"].as_str()?)?;
    volume["spec"]["csi"]["driver"].as_str().map(str::to_owned)
}
