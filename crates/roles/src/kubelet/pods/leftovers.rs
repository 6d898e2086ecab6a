//! What cannot be removed of a pod that has ended: told of, and tried again in the background.
//!
//! # Crash safety
//!
//! Nothing is remembered. The next process finds the record of a container, or that of a pod's directory, and comes here
//! again.

use bowline_api::{Meta, Pod};
use bowline_machinery::effect::EffectError;
use bowline_machinery::queue::Verdict;

use super::model::Observed;
use super::role::Pods;
use super::runtime;
use crate::indexes::PODS_BY_UID;

/// No word of upstream's: its kubelet only logs it.
const FAILED_REMOVAL: &str = "FailedRemoveContainer";

/// What is tried again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leftover {
    /// The directory of a pod, by its UID.
    Directory(String),
    /// The record of a container, by its id.
    Container(String),
}

impl Pods {
    /// Removes the record of a run that has ended. One that cannot be removed holds up the pod only where the next
    /// decision would take it for something that it is not.
    pub(super) async fn remove_record(
        &self,
        seen: &Observed,
        container: &str,
        number: u32,
    ) -> Result<(), EffectError> {
        let id = seen.id(container, number);
        if let Err(error) = self.try_removal(&id).await {
            self.tell_of_record(seen.pod.as_deref(), &id, &error);
            if is_needed_gone(seen, container, number) {
                return Err(error);
            }
            self.leftovers.add(Leftover::Container(id));
        }
        self.runtime.removed(&seen.uid, container, number);
        Ok(())
    }

    /// One more try, in the background and with back-off.
    pub(super) async fn clean_leftover(&self, leftover: &Leftover) -> Verdict {
        let id = match leftover {
            Leftover::Directory(uid) => return self.clean_leftover_directory(uid).await,
            Leftover::Container(id) => id,
        };
        match self.try_removal(id).await {
            Ok(()) => {
                self.told.forget(&format!("container {id}"));
                Verdict::Done
            }
            Err(error) => {
                let uid = runtime::parts(id).map(|(uid, ..)| uid).unwrap_or_default();
                let pods = self.pods.indexed(PODS_BY_UID, uid);
                self.tell_of_record(pods.first().map(AsRef::as_ref), id, &error);
                Verdict::Retry
            }
        }
    }

    async fn try_removal(&self, id: &str) -> Result<(), EffectError> {
        self.on_container("remove", id, self.ports.host.containers.remove(id)).await
    }

    fn tell_of_record(&self, pod: Option<&Pod>, id: &str, error: &EffectError) {
        if self.told.news(&format!("container {id}"), &error.message) {
            tracing::warn!(container = id, %error, "cannot remove a container's record, will try again");
        }
        if let Some(pod) = pod {
            let text = format!("cannot remove what is left of a container, will try again: {error}");
            self.recorder.warning(pod, FAILED_REMOVAL, text);
        }
    }
}

/// Whether the pod cannot go on beside the record. A run that we ended is run again under the same number, and the run of an
/// init container that is forgotten on purpose must not count after the next start.
fn is_needed_gone(seen: &Observed, container: &str, number: u32) -> bool {
    let ending = seen.pod.as_ref().is_none_or(|pod| pod.deleting());
    let mut runs = seen.attempts.get(container).into_iter().flatten();
    let evicted = runs.any(|run| run.number == number && run.evicted);
    let latest = seen.latest(container).is_some_and(|run| run.number == number);
    !ending && if seen.evicting { !evicted } else { evicted || latest }
}
