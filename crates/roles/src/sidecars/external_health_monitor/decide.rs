//! What is asked and told. Pure.

use bowline_machinery::Step;

use super::model::{Action, NODE_NOT_READY, Node, NodeState, Observed, Reading, Volume, Why};

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    match seen {
        Observed::List { asked: false } => Step::Do(Action::List),
        Observed::List { asked: true } => Step::Done,
        Observed::Volume(volume) => of_volume(volume),
        Observed::Node(node) => of_node(node),
    }
}

fn of_volume(volume: &Volume) -> Step<Action, Why> {
    if !volume.checked || volume.handle.is_empty() {
        return Step::Done;
    }
    match (&volume.reading, &volume.claim) {
        (Reading::Told, _) => Step::Done,
        (Reading::Missing, _) if volume.asks_each => Step::Do(Action::Ask),
        // The driver did not list it, which says nothing about its condition.
        (Reading::Missing, _) => Step::Done,
        (Reading::Fresh(condition), Some(_)) if condition.abnormal => {
            Step::Do(Action::TellAbnormal(condition.message.clone()))
        }
        (Reading::Fresh(_), Some(_)) if volume.warned => Step::Do(Action::TellNormal),
        (Reading::Fresh(_), _) => Step::Do(Action::Settle),
    }
}

fn of_node(node: &Node) -> Step<Action, Why> {
    match node.state {
        NodeState::Ready if node.failed => Step::Do(Action::TellNodeRecovered),
        NodeState::Ready => Step::Done,
        NodeState::NotReady(lasts) if lasts <= NODE_NOT_READY => Step::Wait(Why::NotReadyYet),
        // Told again each time that it has lasted this long once more.
        NodeState::NotReady(_) => Step::Do(Action::TellNodeFailed),
        NodeState::Terminated | NodeState::Deleted if node.failed => Step::Done,
        NodeState::Terminated | NodeState::Deleted => Step::Do(Action::TellNodeFailed),
    }
}
