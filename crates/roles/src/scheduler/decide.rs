//! Where a pod goes, one step at a time. Pure; read this to know the behaviour.

mod claims;
mod fit;
mod node;
mod refusal;
mod volumes;

use bowline_api::{Meta, pod};
use bowline_machinery::Step;

use super::model::{Action, NodeSeen, Observed, Why};
use volumes::{Plan, Source};

pub use refusal::Refusal;

/// Reason of the condition of a pod that fits nowhere.
pub const UNSCHEDULABLE: &str = "Unschedulable";

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    let this = &*seen.pod;
    if !pod::node_name(this).is_empty() || this.deleting() || pod::terminated(this) {
        return Step::Done;
    }
    if this.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty()) {
        return Step::Wait(Why::Gated);
    }
    match place(seen) {
        Ok((node, plan)) => proceed(node.node.name(), &plan),
        Err(text) => refuse(seen, text),
    }
}

/// The node with the least to run among those that fit, with what its volumes need; or why there is none. A node
/// for which volumes could not be made comes after those that were not tried as often.
fn place(seen: &Observed) -> Result<(&NodeSeen, Plan), String> {
    if seen.nodes.is_empty() {
        return Err(refusal::NO_NODES.into());
    }
    claims::check(seen).map_err(|text| refusal::of_pod(seen.nodes.len(), &text))?;
    let mut fitting = Vec::new();
    let mut refusals = Vec::new();
    for node in &seen.nodes {
        match fit::check(seen, node) {
            Ok(plan) => fitting.push((node, plan)),
            Err(refusal) => refusals.push(refusal),
        }
    }
    let preference = |node: &NodeSeen| (node.given_back, node.load, node.node.name().to_owned());
    let best = fitting.into_iter().min_by_key(|(node, _)| preference(node));
    best.ok_or_else(|| refusal::of_nodes(&refusals) + &claims::hint(seen))
}

/// The next write towards a chosen node: existing volumes first, then those to be made, the pod last.
///
/// # Crash safety
/// Each write narrows the choice to this node or to volumes that it reaches, so a successor goes on from here.
fn proceed(node: &str, plan: &Plan) -> Step<Action, Why> {
    let reserve = plan.pending.iter().find_map(|(claim, source)| match source {
        Source::Volume { name, reserved: false } => {
            Some(Action::Reserve { claim: claim.clone(), volume: name.clone() })
        }
        Source::Volume { .. } | Source::Provisioner { .. } => None,
    });
    let select = plan.pending.iter().find_map(|(claim, source)| match source {
        Source::Provisioner { selected: false } => {
            Some(Action::SelectNode { claim: claim.clone(), node: node.to_owned() })
        }
        Source::Volume { .. } | Source::Provisioner { .. } => None,
    });
    match reserve.or(select) {
        Some(action) => Step::Do(action),
        None if plan.pending.is_empty() => Step::Do(Action::Bind { node: node.to_owned() }),
        None => Step::Wait(Why::Volumes { node: node.to_owned() }),
    }
}

/// Shows the reason once; the same reason again is only waited for.
fn refuse(seen: &Observed, text: String) -> Step<Action, Why> {
    let shown = pod::condition(&seen.pod, pod::POD_SCHEDULED).is_some_and(|condition| {
        condition.status == "False"
            && condition.reason.as_deref() == Some(UNSCHEDULABLE)
            && condition.message.as_deref() == Some(&text)
    });
    if shown { Step::Wait(Why::Unschedulable(text)) } else { Step::Do(Action::MarkUnschedulable { text }) }
}
