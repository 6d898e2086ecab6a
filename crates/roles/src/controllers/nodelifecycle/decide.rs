//! Which taints a node's condition asks for. Pure.

use bowline_api::{keys, node};
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::Taint;

use super::model::{Action, Observed, Why};

/// New pods stay away; pods that run here stay.
const NO_SCHEDULE: &str = "NoSchedule";

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    let conditions = seen.node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == "Ready").map(|c| c.status.as_str());
    let wanted = match ready {
        Some("True") => None,
        Some("Unknown") => Some(keys::TAINT_UNREACHABLE),
        // A node that has said nothing yet is not ready either.
        Some(_) | None => Some(keys::TAINT_NOT_READY),
    };
    let have = node::taints(&seen.node);
    let ours = |taint: &Taint| {
        [keys::TAINT_NOT_READY, keys::TAINT_UNREACHABLE].contains(&taint.key.as_str())
            && taint.effect == NO_SCHEDULE
    };
    let mut taints: Vec<Taint> =
        have.iter().filter(|t| !ours(t) || Some(t.key.as_str()) == wanted).cloned().collect();
    if let Some(key) = wanted.filter(|key| !taints.iter().any(|t| ours(t) && t.key == *key)) {
        taints.push(Taint { key: key.into(), effect: NO_SCHEDULE.into(), ..Taint::default() });
    }
    if taints == have { Step::Done } else { Step::Do(Action::SetTaints(taints)) }
}
