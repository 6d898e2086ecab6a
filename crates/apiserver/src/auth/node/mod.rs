//! What kubelets may do: each about its own node, its own pods, and what those need.
//!
//! Reads are decided here; what a kubelet may write is checked by [`restriction`], which sees the object.

mod graph;
mod references;
mod restriction;

use bowline_api::{ObjectKey, keys};

use super::attributes::{Attributes, ResourceAttributes};
use super::authorize::Decision;
use super::follow::Follower;
use super::rbac::node_rules;
use super::user::User;
use crate::store::Store;

pub use restriction::NodeRestriction;

use graph::{Graph, Thing};

/// The authorizer.
pub struct NodeAuthorizer {
    graph: Follower<Graph>,
}

impl NodeAuthorizer {
    pub fn new(store: &Store) -> Self {
        Self { graph: Follower::new(store) }
    }

    pub fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        match user.node() {
            None => Decision::default(),
            Some("") => Decision::no_opinion(format!("unknown node for user {:?}", user.name)),
            Some(node) => decide(node, asked, |thing, key| self.graph.current().reaches(node, thing, key)),
        }
    }
}

/// The decision alone. `needs` tells whether something is needed on the node.
pub fn decide(node: &str, asked: &Attributes, needs: impl Fn(Thing, &ObjectKey) -> bool) -> Decision {
    let by_rules = || {
        let allowed = node_rules().iter().any(|rule| rule.allows(asked));
        if allowed { Decision::allow("") } else { Decision::default() }
    };
    let Attributes::Resource(asked) = asked else { return by_rules() };
    let related = |thing: Thing| related(node, asked, |key| needs(thing, key));
    let refusal = match (asked.group.as_str(), asked.resource.as_str()) {
        ("", "secrets") => read_refusal(asked).or_else(|| related(Thing::Secret)),
        ("", "configmaps") => read_refusal(asked).or_else(|| related(Thing::ConfigMap)),
        ("", "persistentvolumeclaims") if asked.subresource == "status" => {
            status_refusal(asked).or_else(|| related(Thing::Claim))
        }
        ("", "persistentvolumeclaims") => get_refusal(asked).or_else(|| related(Thing::Claim)),
        ("", "persistentvolumes") => get_refusal(asked).or_else(|| related(Thing::Volume)),
        ("resource.k8s.io", "resourceclaims") => get_refusal(asked).or_else(|| related(Thing::ResourceClaim)),
        ("storage.k8s.io", "volumeattachments") => get_refusal(asked).or_else(|| related(Thing::Attachment)),
        ("", "serviceaccounts") if asked.verb == "get" && asked.subresource.is_empty() => {
            read_refusal(asked).or_else(|| related(Thing::ServiceAccount))
        }
        ("", "serviceaccounts") => token_refusal(asked).or_else(|| related(Thing::ServiceAccount)),
        ("coordination.k8s.io", "leases") => lease_refusal(node, asked),
        ("storage.k8s.io", "csinodes") => csi_node_refusal(node, asked),
        ("", "nodes") => node_refusal(node, asked),
        ("", "pods") => pod_answer(node, asked).refusal(|| related(Thing::Pod)),
        ("resource.k8s.io", "resourceslices") => slice_answer(node, asked).refusal(|| related(Thing::Slice)),
        _ => return by_rules(),
    };
    refusal.map_or_else(|| Decision::allow(""), Decision::no_opinion)
}

/// Why an object that the request must name is none of the node's business.
fn related(node: &str, asked: &ResourceAttributes, needs: impl Fn(&ObjectKey) -> bool) -> Option<String> {
    if asked.name.is_empty() {
        return Some("No Object name found".into());
    }
    let found = needs(&ObjectKey::new(&asked.namespace, &asked.name));
    (!found).then(|| format!("no relationship found between node '{node}' and this object"))
}

fn read_refusal(asked: &ResourceAttributes) -> Option<String> {
    let why = if !matches!(asked.verb.as_str(), "get" | "list" | "watch") {
        "can only read resources of this type"
    } else if !asked.subresource.is_empty() {
        "cannot read subresource"
    } else if asked.namespace.is_empty() {
        "can only read namespaced object of this type"
    } else {
        return None;
    };
    Some(why.into())
}

fn get_refusal(asked: &ResourceAttributes) -> Option<String> {
    let why = if asked.verb != "get" {
        "can only get individual resources of this type"
    } else if !asked.subresource.is_empty() {
        "cannot get subresource"
    } else {
        return None;
    };
    Some(why.into())
}

fn status_refusal(asked: &ResourceAttributes) -> Option<String> {
    let writes = matches!(asked.verb.as_str(), "update" | "patch");
    (!writes).then(|| "can only get/update/patch this type".into())
}

fn token_refusal(asked: &ResourceAttributes) -> Option<String> {
    let why = if asked.verb != "create" || asked.name.is_empty() {
        "can only create tokens for individual service accounts"
    } else if asked.subresource != "token" {
        "can only create token subresource of serviceaccount"
    } else {
        return None;
    };
    Some(why.into())
}

/// On a create the name is not known yet; [`restriction`] looks at it.
fn is_foreign(node: &str, asked: &ResourceAttributes) -> bool {
    asked.verb != "create" && asked.name != node
}

fn is_single(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

fn lease_refusal(node: &str, asked: &ResourceAttributes) -> Option<String> {
    let leases = keys::NODE_LEASE_NAMESPACE;
    if !is_single(&asked.verb) {
        Some("can only get, create, update, patch, or delete a node lease".into())
    } else if asked.namespace != leases {
        Some(format!("can only access leases in the {leases:?} system namespace"))
    } else if is_foreign(node, asked) {
        Some("can only access node lease with the same name as the requesting node".into())
    } else {
        None
    }
}

fn csi_node_refusal(node: &str, asked: &ResourceAttributes) -> Option<String> {
    let why = if !is_single(&asked.verb) {
        "can only get, create, update, patch, or delete a CSINode"
    } else if !asked.subresource.is_empty() {
        "cannot authorize CSINode subresources"
    } else if is_foreign(node, asked) {
        "can only access CSINode with the same name as the requesting node"
    } else {
        return None;
    };
    Some(why.into())
}

/// A kubelet reads its own node; whether it writes its own, [`restriction`] checks.
fn node_refusal(node: &str, asked: &ResourceAttributes) -> Option<String> {
    match (asked.subresource.as_str(), asked.verb.as_str(), asked.name.as_str()) {
        ("", "create" | "update" | "patch", _) | ("status", "update" | "patch", _) => None,
        ("", "get" | "list" | "watch", name) if name == node => None,
        ("", "get" | "list" | "watch", "") => {
            Some(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch", name) => {
            Some(format!("node '{node}' cannot read '{name}', only its own Node object"))
        }
        _ => Some(String::new()),
    }
}

enum Answer {
    Allow,
    /// If the object belongs to the node.
    Related,
    Refuse(&'static str),
}

impl Answer {
    fn refusal(self, related: impl FnOnce() -> Option<String>) -> Option<String> {
        match self {
            Self::Allow => None,
            Self::Related => related(),
            Self::Refuse(why) => Some(why.into()),
        }
    }
}

fn pod_answer(node: &str, asked: &ResourceAttributes) -> Answer {
    let own = || asked.fields.iter().any(|(field, value)| field == "spec.nodeName" && value == node);
    match (asked.subresource.as_str(), asked.verb.as_str()) {
        ("", "get") => Answer::Related,
        ("", "list" | "watch") if own() => Answer::Allow,
        ("", "list" | "watch") if !asked.name.is_empty() => Answer::Related,
        ("", "list" | "watch") => {
            Answer::Refuse("can only list/watch pods with spec.nodeName field selector")
        }
        // Mirror pods, the status and the eviction of its own pods: checked with the object at hand.
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Answer::Allow,
        _ => Answer::Refuse(""),
    }
}

/// Devices of a node, as its drivers publish them.
fn slice_answer(node: &str, asked: &ResourceAttributes) -> Answer {
    let own = || asked.fields.iter().any(|(field, value)| field == "spec.nodeName" && value == node);
    match asked.verb.as_str() {
        _ if !asked.subresource.is_empty() => Answer::Refuse("cannot authorize ResourceSlice subresources"),
        "create" => Answer::Allow,
        "get" | "update" | "patch" | "delete" => Answer::Related,
        "watch" | "list" | "deletecollection" if own() => Answer::Allow,
        "watch" | "list" | "deletecollection" => {
            Answer::Refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
        }
        _ => Answer::Refuse(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
        ),
    }
}
