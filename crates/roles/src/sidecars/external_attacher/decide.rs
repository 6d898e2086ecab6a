//! The behaviour: attach what stands, detach what is being deleted, one step at a time.

use bowline_api::Meta;
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::SecretReference;

use super::model::{Action, Answer, Attachment, Observed, Source, Target, Volume, Why};

type Decision = Step<Action, Why>;

pub fn decide(seen: &Observed) -> Decision {
    match seen {
        Observed::Attachment(seen) if !seen.driver_publishes => trivial(seen),
        Observed::Attachment(seen) if seen.deleting => detach(seen),
        Observed::Attachment(seen) => attach(seen),
        Observed::Volume(seen) => release(seen),
        Observed::Listing { listed: true } => Step::Done,
        Observed::Listing { listed: false } => Step::Do(Action::List),
    }
}

/// A driver without ControllerPublish: there is nothing to do, so it is done.
fn trivial(seen: &Attachment) -> Decision {
    if seen.attached { Step::Done } else { Step::Do(Action::MarkAttached) }
}

/// Volume finalizer, then finalizer and node id (ATT-1), then the driver, then the status.
fn attach(seen: &Attachment) -> Decision {
    if seen.attached && !seen.forced {
        return Step::Done;
    }
    let target = match &seen.source {
        Source::Volume { object, deleting: true, .. } => {
            return refuse(Why::VolumeDeleting(object.name().to_owned()));
        }
        Source::Volume { guarded: false, .. } => return Step::Do(Action::GuardVolume),
        source => match target_of(source) {
            Ok(target) => target,
            Err(why) => return refuse(why),
        },
    };
    if let Err(text) = &target.capability {
        return refuse(Why::NoCapability(text.clone()));
    }
    // The noted volume may be published: its handle must not be written over before it is detached.
    if let Some(noted) = seen.noted_handle.as_ref().filter(|noted| seen.guarded && **noted != target.handle) {
        return refuse(Why::VolumeReplaced { noted: noted.clone(), now: target.handle.clone() });
    }
    // So may it be on the noted node, where the machine was replaced under its name.
    let settled = matches!(seen.answer, Answer::Unpublished | Answer::NodeUnknown);
    if let Some(noted) = elsewhere(seen).filter(|_| !settled) {
        return detach_from(seen, noted.clone());
    }
    // Only the CSINode counts here: an old annotation may name a machine that is gone.
    let Some(node_id) = seen.node_id.clone() else {
        return refuse(Why::NodeUnknown(seen.object.spec.node_name.clone()));
    };
    if !seen.guarded || seen.noted_node_id.as_ref() != Some(&node_id) {
        return Step::Do(Action::Guard { node_id });
    }
    match seen.answer {
        Answer::Published(_) => Step::Do(Action::MarkAttached),
        Answer::None | Answer::Unpublished | Answer::NodeUnknown => Step::Do(Action::Publish { node_id }),
    }
}

/// Without our finalizer it is detached already, whatever the status says, unless the driver lists it as published. With
/// it, the driver is asked even if no publish was ever seen to succeed: one may have.
fn detach(seen: &Attachment) -> Decision {
    match (seen.guarded, &seen.answer) {
        // The finalizer goes first: with the status first, a crash in between would repeat the call.
        (true, Answer::Unpublished) => Step::Do(Action::Unguard),
        (false, Answer::Unpublished) if seen.attached => Step::Do(Action::MarkDetached),
        (false, Answer::Unpublished) => Step::Done,
        (false, _) if !seen.forced => Step::Done,
        (_, Answer::None | Answer::Published(_) | Answer::NodeUnknown) => {
            // What was noted is what the volume was published to; the machine may be gone, or another one have its name. A
            // driver that names its nodes otherwise since an upgrade knows only the new id.
            let renamed = seen.node_id.as_ref().filter(|_| seen.answer == Answer::NodeUnknown);
            match renamed.or(seen.noted_node_id.as_ref()).or(seen.node_id.as_ref()) {
                None => refuse(Why::NodeUnknown(seen.object.spec.node_name.clone())),
                Some(node_id) => detach_from(seen, node_id.clone()),
            }
        }
    }
}

fn detach_from(seen: &Attachment, node_id: String) -> Decision {
    match detach_target(seen) {
        Ok((handle, secret)) => Step::Do(Action::Unpublish { node_id, handle, secret }),
        Err(why) => refuse(why),
    }
}

/// The noted node, if another one has its name now.
fn elsewhere(seen: &Attachment) -> Option<&String> {
    let noted = seen.noted_node_id.as_ref().filter(|_| seen.guarded)?;
    seen.node_id.as_ref().filter(|now| *now != noted).map(|_| noted)
}

/// What was published: the noted handle. The object may have been removed by force, or another one has its name now; which
/// secret the first one named is then not known any more.
fn detach_target(seen: &Attachment) -> Result<(String, Option<SecretReference>), Why> {
    match (target_of(&seen.source), &seen.noted_handle) {
        (Ok(target), None) => Ok((target.handle.clone(), target.secret.clone())),
        (Ok(target), Some(noted)) => {
            let secret = target.secret.clone().filter(|_| *noted == target.handle);
            Ok((noted.clone(), secret))
        }
        (Err(Why::VolumeMissing(_) | Why::VolumeForeign(_)), Some(noted)) => Ok((noted.clone(), None)),
        (Err(why), _) => Err(why),
    }
}

/// Our finalizer on a volume goes when it is being deleted and no attachment of any driver names it.
fn release(seen: &Volume) -> Decision {
    if seen.guarded && seen.deleting && seen.attachments == 0 {
        Step::Do(Action::UnguardVolume)
    } else {
        Step::Done
    }
}

pub(super) fn target_of(source: &Source) -> Result<&Target, Why> {
    match source {
        Source::Volume { target, .. } | Source::Inline(target) => Ok(target),
        Source::Unclear => Err(Why::SourceUnclear),
        Source::Missing(name) => Err(Why::VolumeMissing(name.clone())),
        Source::Foreign(name) => Err(Why::VolumeForeign(name.clone())),
    }
}

fn refuse(why: Why) -> Decision {
    Step::Fail(why)
}
