//! The behaviour: what nobody wants goes first, then what is wanted comes, one step at a time.

use bowline_api::Meta;
use bowline_machinery::Step;

use super::model::{Action, Attachment, NodeState, Observed, OnNode, Report, Why};

type Decision = Step<Action, Why>;

/// The first thing to do on any node; otherwise the first reason to wait.
pub fn decide(seen: &Observed) -> Decision {
    let nodes = |wanted: bool| {
        let nodes = seen.nodes.iter().filter(move |(_, here)| here.pods.is_empty() != wanted);
        nodes.map(|(node, _)| decide_on(seen, node))
    };
    let steps: Vec<Decision> = nodes(false).chain(nodes(true)).collect();
    let doing = steps.iter().find(|step| matches!(step, Step::Do(_)));
    let waiting = || steps.iter().find(|step| matches!(step, Step::Wait(_)));
    doing.or_else(waiting).cloned().unwrap_or(Step::Done)
}

/// What to do on one node.
pub fn decide_on(seen: &Observed, node: &str) -> Decision {
    match seen.nodes.get(node) {
        None | Some(OnNode { node: NodeState::Unmanaged, .. }) => Step::Done,
        Some(here) if here.pods.is_empty() => release(seen, node, here),
        Some(here) => provide(seen, node, here),
    }
}

/// Nobody wants it here: take the report back, and only then let the attachment go.
fn release(seen: &Observed, node: &str, here: &OnNode) -> Decision {
    let node = node.to_owned();
    match (&here.attachment, here.report) {
        (None, Report::No) => Step::Done,
        (None, Report::Yes) => Step::Do(Action::Unreport { node }),
        (None, Report::Unsure) => Step::Wait(Why::Unsettled { node }),
        (Some(Attachment { deleting: true, .. }), Report::Yes) => Step::Do(Action::Unreport { node }),
        (Some(Attachment { deleting: true, .. }), Report::No | Report::Unsure) => {
            Step::Wait(Why::Detaching { node })
        }
        (Some(attachment), _) if !attachment.ours => {
            Step::Wait(Why::Foreign { attachment: attachment.object.name().to_owned() })
        }
        (Some(_), _) if !may_detach(seen, here) => match here.unwanted_for {
            None => Step::Do(Action::StartTimer { node }),
            Some(_) => Step::Wait(Why::InUse { node }),
        },
        (Some(_), Report::Yes) => Step::Do(Action::Unreport { node }),
        // Repeating the lost write settles it; then it can be taken back.
        (Some(_), Report::Unsure) => Step::Do(Action::Report { node }),
        (Some(_), Report::No) => Step::Do(Action::Detach { node }),
    }
}

/// ATT-3: not while the node may have it mounted, unless a person vouches that the node is down, or it has been
/// unready or gone for the whole safety timer.
fn may_detach(seen: &Observed, here: &OnNode) -> bool {
    let expired = match (here.unwanted_for, seen.force_after) {
        (Some(elapsed), Some(limit)) => elapsed >= limit,
        (None, _) | (_, None) => false,
    };
    match here.node {
        NodeState::Managed { out_of_service: true, .. } => true,
        NodeState::Managed { ready: true, .. } | NodeState::Unmanaged => !here.in_use,
        NodeState::Managed { ready: false, .. } | NodeState::Gone => !here.in_use || expired,
    }
}

/// Pods want it here: attach, wait for the driver, report, tell.
fn provide(seen: &Observed, node: &str, here: &OnNode) -> Decision {
    let name = node.to_owned();
    if here.unwanted_for.is_some() {
        return Step::Do(Action::StopTimer { node: name });
    }
    let attached = here.attachment.as_ref().is_some_and(|a| a.attached && !a.deleting);
    match (attached, here.report) {
        (true, Report::No | Report::Unsure) if here.node != NodeState::Gone => {
            return Step::Do(Action::Report { node: name });
        }
        (true, _) if here.tell_attached => return Step::Do(Action::TellAttached { node: name }),
        (true, _) => return Step::Done,
        // The attachment was lost: the kubelet must not mount what is not there.
        (false, Report::Yes) => return Step::Do(Action::Unreport { node: name }),
        (false, Report::Unsure) => return Step::Wait(Why::Unsettled { node: name }),
        (false, Report::No) => {}
    }
    match (&here.attachment, &here.untold_error) {
        (Some(Attachment { deleting: true, .. }), _) => Step::Wait(Why::Detaching { node: name }),
        (Some(_), Some(error)) => Step::Do(Action::TellFailed { node: name, error: error.clone() }),
        (Some(_), None) => Step::Wait(Why::Attaching { node: name }),
        (None, _) => attach(seen, name, here),
    }
}

/// ATT-2: an attachment or report of another node, in whatever state, keeps a single writer away from here.
fn attach(seen: &Observed, node: String, here: &OnNode) -> Decision {
    if here.node == NodeState::Gone {
        return Step::Wait(Why::NodeGone { node });
    }
    let taken = |(other, there): (&String, &OnNode)| {
        *other != node && (there.attachment.is_some() || there.report != Report::No)
    };
    if seen.shared || !seen.nodes.iter().any(taken) {
        return Step::Do(Action::Attach { node });
    }
    let why = exclusive(seen, &node, here);
    if here.told_waiting { Step::Wait(why) } else { Step::Do(Action::TellWaiting { node, why }) }
}

/// Who has the volume, in the words that pods are told.
fn exclusive(seen: &Observed, node: &str, here: &OnNode) -> Why {
    let namespace = here.pods.first().map(|pod| pod.namespace().to_owned()).unwrap_or_default();
    let others = || seen.nodes.iter().filter(|(other, _)| *other != node).flat_map(|(_, there)| &there.pods);
    let near = others().filter(|pod| pod.namespace() == namespace).map(|pod| pod.name().to_owned()).collect();
    let pods_elsewhere = others().filter(|pod| pod.namespace() != namespace).count();
    Why::Exclusive { volume: here.volume.clone(), pods: near, pods_elsewhere }
}
