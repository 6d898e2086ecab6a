//! What the node status manager sees, does and says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bowline_api::{CSINode, Lease, Node};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use super::machine::Machine;

/// How often the lease is renewed (a quarter of its duration, as upstream).
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);
/// How long the others believe that the node lives.
pub const LEASE_SECONDS: i32 = 40;
/// How often the node is looked at although nothing changed, and its CSINode read: it may not be watched
/// (`nodeStatusUpdateFrequency`).
pub const LOOK: Duration = Duration::from_secs(10);
/// How often an unchanged status is written (`nodeStatusReportFrequency`).
pub const HEARTBEAT: Duration = Duration::from_secs(300);

/// The lease has a key of its own: nothing that is wrong with the node's status keeps it from being renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Node,
    Lease,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Lease => "lease",
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    Node(Box<NodeSeen>),
    Lease(Box<LeaseSeen>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeSeen {
    /// For timestamps; how long ago something was done is counted by another clock.
    pub now: Timestamp,
    pub node_name: String,
    pub machine: Machine,
    /// The node's InternalIP.
    pub address: IpAddr,
    /// `--node-labels`
    pub labels: BTreeMap<String, String>,
    /// `--register-with-taints`
    pub taints: Vec<Taint>,
    /// Whether the node is created when it is not there.
    pub register: bool,
    /// The process is about to end.
    pub stopping: bool,
    pub node: Option<Node>,
    pub csi_node: Option<CSINode>,
    /// How long ago this process wrote the status; `None` when it has not yet.
    pub status_age: Option<Duration>,
    /// `volumesInUse` as wanted and as accepted; `None` while the mounts of an earlier process are not known.
    pub in_use: Option<(BTreeSet<String>, BTreeSet<String>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LeaseSeen {
    pub now: Timestamp,
    /// The owner; it has to be there first.
    pub node: Option<Node>,
    /// As last written or read.
    pub lease: Option<Lease>,
    /// How long ago this process renewed it; `None` when it has not yet.
    pub age: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Register(Box<Node>),
    /// Labels and annotations that are missing.
    PatchNode(Value),
    CreateCsiNode(CSINode),
    /// It belongs to an earlier node of the same name.
    DeleteCsiNode(CSINode),
    PublishInUse(BTreeSet<String>),
    /// The API has the list already.
    AcceptInUse(BTreeSet<String>),
    PatchStatus(Value),
    CreateLease(Lease),
    RenewLease(Lease),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A lease belongs to its node.
    Unregistered,
    /// What an earlier process left mounted is not known yet, and a node is registered with what it has in use.
    MountsUnknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unregistered => f.write_str("the node is not registered yet"),
            Self::MountsUnknown => f.write_str("the mounts of an earlier process are not known yet"),
        }
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;
