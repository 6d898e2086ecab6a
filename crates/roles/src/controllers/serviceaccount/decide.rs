//! When an account is made. Pure.

use bowline_api::Meta;
use bowline_machinery::Step;

use super::model::{Action, Observed, Why};

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    // Nothing new may be put into a namespace that goes.
    if seen.account || seen.namespace.deleting() { Step::Done } else { Step::Do(Action::Create) }
}
