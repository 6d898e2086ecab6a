//! Why a node or a pod was refused, in upstream's words.

use std::collections::BTreeMap;

pub(super) const NO_NODES: &str = "no nodes available to schedule pods";

/// Why a node does not take a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    Unschedulable,
    Taints,
    Affinity,
    InUseByAnotherPod,
    VolumeLimit,
    VolumeOutOfReach,
    NothingToBind,
    NoSpace,
    VolumeMissing,
}

impl Refusal {
    pub fn text(self) -> &'static str {
        match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taints => "node(s) had untolerated taint(s)",
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Self::InUseByAnotherPod => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::VolumeLimit => "node(s) exceed max volume count",
            Self::VolumeOutOfReach => "node(s) didn't match PersistentVolume's node affinity",
            Self::NothingToBind => "node(s) didn't find available persistent volumes to bind",
            Self::NoSpace => "node(s) did not have enough free storage",
            Self::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
        }
    }

    /// Whether removing pods from the node could help. Nobody does that here, but the text says so.
    fn preemption_could_help(self) -> bool {
        matches!(self, Self::InUseByAnotherPod | Self::VolumeLimit)
    }
}

/// The text for a pod that no node was even asked about.
pub(super) fn of_pod(nodes: usize, reason: &str) -> String {
    let helpless = preemption(nodes, &BTreeMap::from([(NOT_HELPFUL, nodes)]));
    format!("0/{nodes} nodes are available: {reason}. {helpless}")
}

/// The text for a pod that every node refused, each with all its reasons.
pub(super) fn of_nodes(refusals: &[Vec<Refusal>]) -> String {
    let (mut reasons, mut hopes) = (BTreeMap::new(), BTreeMap::new());
    for refusal in refusals {
        refusal.iter().for_each(|reason| *reasons.entry(reason.text()).or_insert(0) += 1);
        let hope = refusal.iter().all(|reason| reason.preemption_could_help());
        *hopes.entry(if hope { NO_VICTIMS } else { NOT_HELPFUL }).or_insert(0) += 1;
    }
    let nodes = refusals.len();
    format!("0/{nodes} nodes are available: {}. {}", histogram(&reasons), preemption(nodes, &hopes))
}

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

fn preemption(nodes: usize, hopes: &BTreeMap<&str, usize>) -> String {
    format!("preemption: 0/{nodes} nodes are available: {}.", histogram(hopes))
}

/// `2 reason, 3 other`, ordered as text.
fn histogram(counts: &BTreeMap<&str, usize>) -> String {
    let mut parts: Vec<String> = counts.iter().map(|(text, count)| format!("{count} {text}")).collect();
    parts.sort();
    parts.join(", ")
}
