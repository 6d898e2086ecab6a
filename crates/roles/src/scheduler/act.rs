//! One write per action, guarded by the resourceVersion of what was seen.

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, Pod, keys, pod};
use bowline_machinery::EffectError;
use bowline_machinery::effect::Part;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::decide::UNSCHEDULABLE;
use super::model::{Action, ClaimSeen, Observed};
use super::role::Scheduler;
use crate::controllers::persistentvolume::reserved;

impl Scheduler {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        match &action {
            Action::Reserve { claim, volume } => {
                let (volume, claim) = find_volume(seen, claim, volume).ok_or_else(|| unseen(&action))?;
                self.effects.replace(Part::Main, &reserved(volume, claim)).await.map(drop)
            }
            Action::SelectNode { claim, node } => {
                let claim = find_claim(seen, claim).and_then(|c| c.claim.as_deref());
                let mut claim = claim.ok_or_else(|| unseen(&action))?.clone();
                claim.set_annotation(keys::SELECTED_NODE, node);
                self.effects.replace(Part::Main, &claim).await.map(drop)
            }
            Action::Bind { node } => self.bind(&seen.pod, node).await,
            Action::MarkUnschedulable { text } => {
                let marked = unschedulable(&seen.pod, text, self.host.clock.now());
                self.effects.replace(Part::Status, &marked).await?;
                self.recorder.warning(&*seen.pod, "FailedScheduling", text);
                Ok(())
            }
        }
    }

    /// The API server refuses a second binding, so a lost answer is cleared by asking again.
    async fn bind(&self, this: &Pod, node: &str) -> Result<(), EffectError> {
        // It stays unread if it fails as well: it may have landed, or an earlier one has.
        self.unread.add(this.key());
        self.effects.post("binding", this, &binding(this, node)).await?;
        self.recorder.normal(
            this,
            "Scheduled",
            format!("Successfully assigned {}/{} to {node}", this.namespace(), this.name()),
        );
        self.read_back().await
    }
}

fn find_claim<'a>(seen: &'a Observed, name: &str) -> Option<&'a ClaimSeen> {
    seen.claims.iter().find(|claim| claim.name == name)
}

fn find_volume<'a>(
    seen: &'a Observed,
    claim: &str,
    volume: &str,
) -> Option<(&'a PersistentVolume, &'a PersistentVolumeClaim)> {
    let seen = find_claim(seen, claim)?;
    let found = seen.candidates.iter().find(|candidate| candidate.name() == volume)?;
    Some((found, seen.claim.as_deref()?))
}

fn unseen(action: &Action) -> EffectError {
    EffectError::refused(format!("{action:?} does not fit what was seen"))
}

pub(super) fn binding(this: &Pod, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": this.name(), "namespace": this.namespace(), "uid": this.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

/// The pod with its condition; the time changes only when the status of the condition does.
pub(super) fn unschedulable(this: &Pod, text: &str, now: Timestamp) -> Pod {
    let since = pod::condition(this, pod::POD_SCHEDULED)
        .filter(|condition| condition.status == "False")
        .and_then(|condition| condition.last_transition_time.clone());
    let condition = PodCondition {
        type_: pod::POD_SCHEDULED.into(),
        status: "False".into(),
        reason: Some(UNSCHEDULABLE.into()),
        message: Some(text.into()),
        last_transition_time: since.or(Some(Time(now))),
        ..Default::default()
    };
    let mut this = this.clone();
    let conditions = this.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|other| other.type_ != pod::POD_SCHEDULED);
    conditions.push(condition);
    this
}
