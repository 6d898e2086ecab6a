//! SEC-1: no program asks for more than the role that it is given.
//!
//! What a kubelet may, the Node authorizer of the API server says. For the other programs the tables in
//! `roles/src/rights.rs` count, which `bowline rbac` prints and a test keeps within upstream's roles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bowline_api::{Meta, ObjectKey, pod, volume};
use bowline_roles::controllers::CONTROLLERS;
use bowline_roles::rights::{self, Rights};
use http::{Method, Request};

use super::Oracle;
use super::calls::kubelet_node;
use crate::line::effect::Effect;

/// What a subject may, as `verb resource.group`.
type Table = BTreeSet<String>;

/// Upstream grants every program its lease with names; here names are not judged.
const LEASES: Rights = &["leases.coordination.k8s.io: get create update"];

/// By service account for controllers, else by program.
static TABLES: LazyLock<BTreeMap<&'static str, Table>> = LazyLock::new(|| {
    let mut tables: BTreeMap<&str, Table> = [
        ("kube-scheduler", table(&[rights::SCHEDULER, LEASES])),
        ("csi-provisioner", table(&[rights::PROVISIONER, rights::PROVISIONER_LEASES, rights::SECRETS])),
        ("csi-attacher", table(&[rights::ATTACHER, rights::ATTACHER_LEASES, rights::SECRETS])),
        ("csi-resizer", table(&[rights::RESIZER, rights::RESIZER_LEASES, rights::SECRETS])),
        ("kube-controller-manager", table(&[LEASES, CACHES])),
    ]
    .into();
    tables.extend(CONTROLLERS.iter().map(|one| (one.account, table(&[one.rights]))));
    tables
});

/// The caches of the controllers are filled by their program, which may read everything.
const CACHES: Rights = &["*.*: get list watch"];

fn table(rights: &[Rights]) -> Table {
    let key = |right: rights::Right| format!("{} {}.{}", right.verb, right.resource, right.group);
    rights.iter().flat_map(|rights| rights::each(rights)).map(key).collect()
}

/// A request as `verb resource.group`; `None` for what is no resource.
fn asked<B>(request: &Request<B>) -> Option<(&'static str, String)> {
    let parts: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, named) = match rest {
        [] => return None,
        [resource] => ((*resource).to_owned(), false),
        [resource, _] => ((*resource).to_owned(), true),
        [resource, _, part, ..] => (format!("{resource}/{part}"), true),
    };
    let query = request.uri().query().unwrap_or_default();
    let verb = match *request.method() {
        Method::GET if query.contains("watch=true") || query.contains("watch=1") => "watch",
        Method::GET if named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        _ => "delete",
    };
    Some((verb, format!("{resource}.{group}")))
}

impl Oracle {
    /// A program asks for something, under the name of the role that does.
    pub fn asks<B>(&mut self, role: &str, request: &Request<B>) {
        let Some(table) = TABLES.get(role) else { return };
        let Some((verb, resource)) = asked(request) else { return };
        if !table.contains(&format!("{verb} {resource}")) && !table.contains(&format!("{verb} *.*")) {
            self.broken(format!("SEC-1: {role} has no right to {verb} {resource}"));
        }
    }

    /// The API server refuses a node something. That is right for what belongs to a pod that has gone, for a pod whose
    /// name another one on another node has by now, and for what a server that is behind has not heard of.
    pub fn node_refused(&mut self, process: &str, effect: &Effect, behind: bool) {
        let Some(node) = kubelet_node(process) else { return };
        let (namespace, name) = effect.object.split_once('/').unwrap_or(("", &effect.object));
        let key = ObjectKey::new(namespace, name);
        let (verb, kind) = effect.name.split_once(' ').unwrap_or((&effect.name, ""));
        let wanted = match (verb, kind) {
            (_, "pod") => self.pods.get(&key).is_some_and(|pod| pod::node_name(pod) == node),
            ("get", kind) => !behind && self.needs(&node, kind, &key),
            _ => true,
        };
        if wanted {
            self.broken(format!("SEC-1: {process} may not `{}` {}", effect.name, effect.object));
        }
    }

    /// Whether a node has to read an object: its own ones, and what its pods refer to.
    fn needs(&self, node: &str, kind: &str, key: &ObjectKey) -> bool {
        let pods = || self.pods.values().filter(|pod| pod::node_name(pod) == node);
        let claims = || {
            let keys = pods()
                .flat_map(|pod| pod::claims(pod).map(|(_, claim)| ObjectKey::new(pod.namespace(), claim)));
            keys.filter_map(|key| self.claims.get(&key))
        };
        let volumes = || {
            let names = claims().map(|claim| ObjectKey::new("", volume::claim_volume(claim)));
            names.filter_map(|key| self.volumes.get(&key))
        };
        match kind {
            "persistentvolumeclaim" => claims().any(|claim| claim.key() == *key),
            "persistentvolume" => volumes().any(|found| found.name() == key.name),
            "secret" => volumes().filter_map(|found| volume::csi(found)).any(|csi| {
                let secrets = [&csi.node_stage_secret_ref, &csi.node_publish_secret_ref];
                secrets.into_iter().flatten().any(|secret| secret.name.as_deref() == Some(&*key.name))
            }),
            "volumeattachment" => {
                let found = self.attachments.get(key);
                found.is_some_and(|attachment| attachment.spec.node_name == node)
            }
            // Each pod has the authority of the API server in its projected volume.
            "configmap" => pods().any(|pod| pod.namespace() == key.namespace),
            // Its Node, CSINode and Lease have its name; of other kinds, each refusal is a defect.
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_as_rights_are() {
        let table = [
            ("GET", "/api/v1/pods?watch=true", "watch pods."),
            ("GET", "/api/v1/nodes/n", "get nodes."),
            ("POST", "/api/v1/namespaces/d/pods/p/binding", "create pods/binding."),
            (
                "PATCH",
                "/apis/storage.k8s.io/v1/volumeattachments/a/status",
                "patch volumeattachments/status.storage.k8s.io",
            ),
            ("GET", "/api/v1/namespaces", "list namespaces."),
        ];
        for (method, path, expected) in table {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            let (verb, resource) = asked(&request).unwrap();
            assert_eq!(format!("{verb} {resource}"), expected);
        }
        assert!(TABLES["kube-scheduler"].contains("create pods/binding."));
        assert!(TABLES["csi-attacher"].contains("patch volumeattachments/status.storage.k8s.io"));
    }
}
