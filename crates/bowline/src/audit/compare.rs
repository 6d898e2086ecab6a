//! The driver's list against the cluster's. Pure.
//!
//! The cluster is read before and after the driver, because volumes come and go meanwhile: an object that is missing in
//! one of the two reads proves nothing against the driver, and one that is in either proves that a volume has an owner.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// A volume that the driver lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub id: String,
    /// Node ids that it says it is published to.
    pub nodes: Vec<String>,
}

/// A PersistentVolume or VolumeSnapshotContent of the driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub name: String,
    pub uid: String,
    pub handle: String,
}

/// A VolumeAttachment of the driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    pub name: String,
    pub uid: String,
    /// Of the volume; empty if neither its object nor the attachment says it.
    pub handle: String,
    pub node: String,
    /// What the driver calls the node, if it is known.
    pub node_id: Option<String>,
    pub attached: bool,
}

/// What the cluster has at one time.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub owners: Vec<Owner>,
    pub attachments: Vec<Attachment>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "finding", rename_all = "camelCase")]
pub enum Finding {
    /// The driver has it, and no object of the cluster names it.
    #[serde(rename_all = "camelCase")]
    NoOwner { handle: String },
    /// An object names it, and the driver does not list it.
    #[serde(rename_all = "camelCase")]
    Missing { object: String, handle: String },
    /// Two objects name one volume: deleting either may delete it.
    #[serde(rename_all = "camelCase")]
    Shared { handle: String, objects: Vec<String> },
    /// The driver says that it is published to a node for which there is no VolumeAttachment.
    #[serde(rename_all = "camelCase")]
    AttachedWithoutAttachment { handle: String, node_id: String },
    /// A VolumeAttachment says attached, and the driver does not.
    #[serde(rename_all = "camelCase")]
    NotAttached { attachment: String, handle: String, node: String },
}

/// Compares volumes or snapshots. `publishes` is whether the driver's list says where volumes are published.
pub fn compare(before: &Cluster, listed: &[Listed], after: &Cluster, publishes: bool) -> Vec<Finding> {
    let ids: BTreeSet<&str> = listed.iter().map(|one| one.id.as_str()).collect();
    let owned: BTreeSet<&str> =
        before.owners.iter().chain(&after.owners).map(|owner| owner.handle.as_str()).collect();
    let mut findings: Vec<Finding> =
        ids.difference(&owned).map(|id| Finding::NoOwner { handle: (*id).to_owned() }).collect();
    let mut objects: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for owner in lasting(&before.owners, &after.owners, |owner| owner.uid.as_str()) {
        objects.entry(&owner.handle).or_default().push(owner.name.clone());
        if !ids.contains(owner.handle.as_str()) {
            let (object, handle) = (owner.name.clone(), owner.handle.clone());
            findings.push(Finding::Missing { object, handle });
        }
    }
    for (handle, objects) in objects.into_iter().filter(|(_, objects)| objects.len() > 1) {
        findings.push(Finding::Shared { handle: handle.to_owned(), objects });
    }
    if publishes {
        findings.extend(attachments(before, listed, after));
    }
    findings.sort();
    findings
}

fn attachments(before: &Cluster, listed: &[Listed], after: &Cluster) -> Vec<Finding> {
    let either = || before.attachments.iter().chain(&after.attachments);
    // A node whose id is not known may be any node: its attachment excuses every publication of the volume.
    let explained = |handle: &str, node_id: &str| {
        either().any(|one| one.handle == handle && one.node_id.as_deref().is_none_or(|id| id == node_id))
    };
    let mut findings = Vec::new();
    for volume in listed {
        for node_id in volume.nodes.iter().filter(|node_id| !explained(&volume.id, node_id)) {
            let (handle, node_id) = (volume.id.clone(), node_id.clone());
            findings.push(Finding::AttachedWithoutAttachment { handle, node_id });
        }
    }
    let published: BTreeSet<(&str, &str)> =
        listed.iter().flat_map(|one| one.nodes.iter().map(|node| (one.id.as_str(), node.as_str()))).collect();
    let known: BTreeSet<&str> = listed.iter().map(|one| one.id.as_str()).collect();
    for one in
        lasting(&before.attachments, &after.attachments, |one| one.uid.as_str()).filter(|one| one.attached)
    {
        // A volume that the driver does not list at all is said to be missing.
        let Some(node_id) = one.node_id.as_deref().filter(|_| known.contains(one.handle.as_str())) else {
            continue;
        };
        if !published.contains(&(one.handle.as_str(), node_id)) {
            let (attachment, handle, node) = (one.name.clone(), one.handle.clone(), one.node.clone());
            findings.push(Finding::NotAttached { attachment, handle, node });
        }
    }
    findings
}

/// Those of `before` that are still there and say the same.
fn lasting<'a, T: PartialEq>(
    before: &'a [T],
    after: &'a [T],
    uid: impl Fn(&T) -> &str + 'a,
) -> impl Iterator<Item = &'a T> {
    let later: BTreeMap<&str, &T> = after.iter().map(|one| (uid(one), one)).collect();
    before.iter().filter(move |one| later.get(uid(one)).is_some_and(|other| other == one))
}

impl Finding {
    /// One line for people; `kind` is `volume` or `snapshot`.
    pub fn line(&self, kind: &str) -> String {
        match self {
            Self::NoOwner { handle } => {
                format!("no owner      {kind} {handle}: the driver has it, no object of the cluster names it")
            }
            Self::Missing { object, handle } => {
                format!("missing       {kind} {handle}: {object} names it, the driver does not list it")
            }
            Self::Shared { handle, objects } => {
                format!("shared        {kind} {handle}: {} name it", objects.join(", "))
            }
            Self::AttachedWithoutAttachment { handle, node_id } => format!(
                "attached      {kind} {handle}: the driver published it to node id {node_id}, no VolumeAttachment says so"
            ),
            Self::NotAttached { attachment, handle, node } => format!(
                "not attached  {kind} {handle}: VolumeAttachment {attachment} says attached to {node}, the driver does not"
            ),
        }
    }
}
