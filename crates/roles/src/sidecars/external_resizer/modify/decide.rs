//! The behaviour: which class to work towards, and which step is next.

use std::sync::Arc;

use bowline_api::expansion::{
    MODIFY_IN_PROGRESS, MODIFY_PENDING, MODIFYING_VOLUME, condition_holds, conditions,
    current_attributes_class, modify_status, modify_target,
};
use bowline_api::volume::{self, claim_attributes_class, volume_attributes_class};
use bowline_api::{Meta, PersistentVolume, VolumeAttributesClass};
use bowline_machinery::Step;

use super::model::{Action, Observed, Outcome, Why};

type Decision = Step<Action, Why>;

pub fn decide(seen: &Observed) -> Decision {
    let claim = seen.claim.as_ref();
    if volume::claim_phase(claim) != volume::BOUND || volume::claim_volume(claim).is_empty() {
        return Step::Done;
    }
    let Some(object) = &seen.volume else {
        let volume = volume::claim_volume(claim).to_owned();
        return Step::Wait(Why::VolumeMissing { claim: claim.key(), volume });
    };
    if volume::csi(object).is_none_or(|source| source.driver != seen.settings.driver) {
        return Step::Done;
    }
    conclude(seen, object).unwrap_or_else(|| begin(seen))
}

/// What is left to write down of the driver's last answer: the volume first, so that it never lags behind the claim.
fn conclude(seen: &Observed, object: &PersistentVolume) -> Option<Decision> {
    let claim = seen.claim.as_ref();
    let ours = |target: &str| in_progress(seen) && modify_target(claim) == target;
    match seen.attempt.outcome.as_ref()? {
        Outcome::Failed { target, .. } if ours(target) => Some(Step::Do(Action::MarkFailed)),
        Outcome::Modified { target } if ours(target) => {
            let target = target.clone();
            let known = volume_attributes_class(object) == target;
            Some(Step::Do(if known { Action::MarkDone { target } } else { Action::UpdateVolume { target } }))
        }
        Outcome::Failed { .. } | Outcome::Modified { .. } => None,
    }
}

fn begin(seen: &Observed) -> Decision {
    let claim = seen.claim.as_ref();
    let wanted = claim_attributes_class(claim);
    if seen.attempt.slow && modify_status(claim).is_some() && modify_target(claim) == wanted {
        return Step::Wait(Why::Infeasible(claim.key()));
    }
    if modify_status(claim).is_none() && wanted == current_attributes_class(claim) {
        return Step::Done;
    }
    if wanted.is_empty() && !in_progress(seen) {
        let told = conditions(claim).iter().any(|condition| condition.type_ == MODIFYING_VOLUME);
        return if told { Step::Do(Action::Cancel) } else { Step::Done };
    }
    // The class in the status may have been applied: it is finished before another one is begun.
    if in_progress(seen) && (!seen.attempt.certain || wanted.is_empty()) {
        return modify(modify_target(claim), seen.target.as_ref());
    }
    let Some(class) = &seen.wanted else {
        let pending = modify_status(claim).is_some_and(|status| status.status == MODIFY_PENDING);
        let missing = Why::ClassMissing(wanted.to_owned());
        return if pending { Step::Wait(missing) } else { Step::Do(Action::MarkPending) };
    };
    let noted =
        in_progress(seen) && modify_target(claim) == wanted && condition_holds(claim, MODIFYING_VOLUME);
    if noted { modify(wanted, Some(class)) } else { Step::Do(Action::MarkInProgress) }
}

fn modify(name: &str, class: Option<&Arc<VolumeAttributesClass>>) -> Decision {
    match class {
        Some(class) => Step::Do(Action::Modify { class: class.clone() }),
        None => Step::Wait(Why::ClassMissing(name.to_owned())),
    }
}

fn in_progress(seen: &Observed) -> bool {
    modify_status(&seen.claim).is_some_and(|status| status.status == MODIFY_IN_PROGRESS)
}
