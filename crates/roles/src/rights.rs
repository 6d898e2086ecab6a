//! What each role may ask of the API server, as `resource.group/subresource: verbs`: what `bowline rbac` prints.
//!
//! A table per role rather than one for all: an administrator grants what is enabled and nothing else. A test keeps each
//! within the role that upstream ships.

/// The rights of one role.
pub type Rights = &'static [&'static str];

pub const BINDER: Rights = &[
    "persistentvolumes: get list watch update",
    "persistentvolumes/status: update",
    "persistentvolumeclaims: get list watch update",
    "persistentvolumeclaims/status: update",
    "storageclasses.storage.k8s.io: list watch",
    "pods: list watch",
    "events: create patch",
];

pub const ATTACH_DETACH: Rights = &[
    "pods: list watch",
    "persistentvolumeclaims: list watch",
    "persistentvolumes: list watch",
    "nodes: get list watch",
    "nodes/status: patch",
    "volumeattachments.storage.k8s.io: create delete list watch",
    "csidrivers.storage.k8s.io: list watch",
    "events: create patch",
];

pub const PV_PROTECTION: Rights = &["persistentvolumes: list watch update"];

pub const PVC_PROTECTION: Rights = &["persistentvolumeclaims: list watch update", "pods: list watch"];

/// Any object can own any other.
pub const GARBAGE_COLLECTOR: Rights = &["*.*: get list watch patch delete", "events: create patch"];

pub const NODE_LIFECYCLE: Rights = &["nodes: list watch patch"];

pub const SERVICE_ACCOUNT: Rights = &["namespaces: list watch", "serviceaccounts: create list watch"];

pub const ROOT_CA_PUBLISHER: Rights = &["namespaces: list watch", "configmaps: create list watch update"];

pub const SCHEDULER: Rights = &[
    "pods: get list watch",
    "pods/binding: create",
    "pods/status: update",
    "nodes: list watch",
    "persistentvolumeclaims: list watch update",
    "persistentvolumes: list watch update",
    "storageclasses.storage.k8s.io: list watch",
    "csidrivers.storage.k8s.io: list watch",
    "csinodes.storage.k8s.io: list watch",
    "csistoragecapacities.storage.k8s.io: list watch",
    "volumeattachments.storage.k8s.io: list watch",
    "events: create patch",
];

pub const PROVISIONER: Rights = &[
    "persistentvolumes: get list watch create patch delete",
    "persistentvolumeclaims: list watch update",
    "storageclasses.storage.k8s.io: list watch",
    "volumeattributesclasses.storage.k8s.io: get",
    "volumeattachments.storage.k8s.io: list watch",
    "nodes: list watch",
    "csinodes.storage.k8s.io: list watch",
    "volumesnapshots.snapshot.storage.k8s.io: get list update",
    "volumesnapshotcontents.snapshot.storage.k8s.io: get",
    "events: create patch",
];

/// In the namespace of its lease.
pub const PROVISIONER_LEASES: Rights = &["leases.coordination.k8s.io: get list create update delete"];

/// In its own namespace, with `--enable-capacity`; replica sets only if the owner of the objects is above one.
pub const PROVISIONER_CAPACITY: Rights = &[
    "csistoragecapacities.storage.k8s.io: list watch create update delete",
    "pods: get",
    "replicasets.apps: get",
];

pub const ATTACHER: Rights = &[
    "persistentvolumes: list watch patch",
    "volumeattachments.storage.k8s.io: list watch patch",
    "volumeattachments.storage.k8s.io/status: patch",
    "csinodes.storage.k8s.io: list watch",
];

/// In the namespace of its lease.
pub const ATTACHER_LEASES: Rights = &["leases.coordination.k8s.io: get create update"];

pub const RESIZER: Rights = &[
    "persistentvolumes: list watch patch",
    "persistentvolumeclaims: list watch",
    "persistentvolumeclaims/status: patch",
    "pods: list watch",
    "volumeattributesclasses.storage.k8s.io: list watch",
    "events: create patch",
];

/// In the namespace of its lease.
pub const RESIZER_LEASES: Rights = &["leases.coordination.k8s.io: get create update"];

pub const SNAPSHOTTER: Rights = &[
    "volumesnapshotclasses.snapshot.storage.k8s.io: list watch",
    "volumesnapshotcontents.snapshot.storage.k8s.io: get list watch patch",
    "volumesnapshotcontents.snapshot.storage.k8s.io/status: patch",
    "events: create patch",
];

pub const SNAPSHOT_CONTROLLER: Rights = &[
    "persistentvolumes: list watch",
    "persistentvolumeclaims: list watch update",
    "volumesnapshotclasses.snapshot.storage.k8s.io: list watch",
    "volumesnapshotcontents.snapshot.storage.k8s.io: create get list watch delete patch",
    "volumesnapshots.snapshot.storage.k8s.io: list watch patch",
    "volumesnapshots.snapshot.storage.k8s.io/status: update",
    "events: create patch",
];

/// In the namespace of their leases.
pub const SNAPSHOT_LEASES: Rights = &["leases.coordination.k8s.io: get create update"];

pub const HEALTH_MONITOR: Rights = &[
    "persistentvolumes: list watch",
    "persistentvolumeclaims: list watch",
    "nodes: list watch",
    "pods: list watch",
    "events: list watch create patch",
];

/// In the namespace of its lease.
pub const HEALTH_MONITOR_LEASES: Rights = &["leases.coordination.k8s.io: get create update"];

/// Of a sidecar whose classes or volumes name secrets.
pub const SECRETS: Rights = &["secrets: get"];

/// Of kube-controller-manager and kube-scheduler: who a client of `/metrics` is, and whether it may.
pub const REVIEWS: Rights =
    &["tokenreviews.authentication.k8s.io: create", "subjectaccessreviews.authorization.k8s.io: create"];

/// A verb on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub group: &'static str,
    /// With its subresource, if any.
    pub resource: String,
    pub verb: &'static str,
}

/// The rights of a table, one by one.
pub fn each(rights: Rights) -> impl Iterator<Item = Right> {
    rights.iter().flat_map(|line| {
        let (resource, verbs) = line.split_once(": ").unwrap_or((line, ""));
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
        let resource = if part.is_empty() { name.to_owned() } else { format!("{name}/{part}") };
        verbs.split(' ').map(move |verb| Right { group, resource: resource.clone(), verb })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_kubectl_names_resources() {
        let rights: Vec<Right> = each(&["volumeattachments.storage.k8s.io/status: get patch"]).collect();
        let right =
            |verb| Right { group: "storage.k8s.io", resource: "volumeattachments/status".into(), verb };
        assert_eq!(rights, [right("get"), right("patch")]);
        let core = each(&["pods: list"]).next();
        assert_eq!(core, Some(Right { group: "", resource: "pods".into(), verb: "list" }));
        let all = each(&["*.*: get"]).next();
        assert_eq!(all, Some(Right { group: "*", resource: "*".into(), verb: "get" }));
    }
}
