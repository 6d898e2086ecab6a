//! When the certificate is written. Pure.

use bowline_api::Meta;
use bowline_machinery::Step;

use super::model::{Action, Observed, Why, data};

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    match &seen.map {
        // Nothing new may be put into a namespace that goes.
        _ if seen.namespace.deleting() => Step::Done,
        None => Step::Do(Action::Create),
        Some(map) if map.data.as_ref() == Some(&data(&seen.root)) => Step::Done,
        Some(_) => Step::Do(Action::Restore),
    }
}
