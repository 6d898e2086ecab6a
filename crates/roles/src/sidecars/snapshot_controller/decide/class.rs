//! The class of a snapshot: the one it names, or the default one of its volume's driver.

use bowline_api::{Meta, volume};
use bowline_machinery::Step;

use super::super::model::{Action, Snapshot};
use super::{Decision, is_member, problem};

/// What is to be done about the class before anything else; `None` when nothing is.
pub(super) fn decide(seen: &Snapshot) -> Option<Decision> {
    let spec = &seen.object.spec;
    match (&spec.volume_snapshot_class_name, &seen.class) {
        (Some(_), Some(_)) => None,
        (Some(name), None) => {
            let text = format!(
                "Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io \"{name}\" not found"
            );
            Some(problem(seen, "GetSnapshotClassFailed", text, false))
        }
        (None, _) if spec.source.persistent_volume_claim_name.is_none() || is_member(seen) => None,
        (None, _) => Some(match default_class(seen) {
            Ok(name) => Step::Do(Action::SetDefaultClass(name)),
            Err(why) => {
                let text = format!("Failed to set default snapshot class with error {why}");
                problem(seen, "SetDefaultSnapshotClassFailed", text, false)
            }
        }),
    }
}

/// The only default class of the driver; those of other drivers do not count (5.10, 15).
fn default_class(seen: &Snapshot) -> Result<String, String> {
    let volume = super::content::source_volume(seen)?;
    let driver = volume::csi(volume).map(|csi| csi.driver.as_str()).ok_or_else(|| {
        let key = seen.object.key();
        format!("snapshotting non-CSI volumes is not supported, snapshot:{key}")
    })?;
    let mut ours = seen.defaults.iter().filter(|class| class.driver == driver);
    match (ours.next(), ours.count()) {
        (None, _) => Err("cannot find default snapshot class".into()),
        (Some(class), 0) => Ok(class.name().to_owned()),
        (Some(_), more) => Err(format!("{} default snapshot classes were found", more + 1)),
    }
}
