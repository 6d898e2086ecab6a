//! What the node status manager sees, does and says.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use bowline_api::{CSINode, Lease, Namespace, Node};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use super::machine::Machine;

/// How often the lease is renewed (a quarter of its duration, as upstream).
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);
/// How long the others believe that the node lives.
pub const LEASE_SECONDS: i32 = 40;
/// How often an unchanged status is written (`nodeStatusReportFrequency`).
pub const HEARTBEAT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub now: Timestamp,
    pub node_name: String,
    pub machine: Machine,
    /// The process is about to end.
    pub stopping: bool,
    pub node: Option<Node>,
    pub csi_node: Option<CSINode>,
    pub lease_namespace: bool,
    pub lease: Option<Lease>,
    /// `volumesInUse` as wanted and as accepted; `None` while the mounts of an earlier process are not known.
    pub in_use: Option<(BTreeSet<String>, BTreeSet<String>)>,
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
    SetTaints(Vec<Taint>),
    CreateNamespace(Namespace),
    CreateLease(Lease),
    RenewLease(Lease),
}

/// Nothing here waits for anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {}

impl fmt::Display for Why {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;
