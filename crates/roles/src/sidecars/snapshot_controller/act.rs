//! Actions → one effect each.

use bowline_api::snapshot::VolumeSnapshotStatus;
use bowline_api::{Meta, PersistentVolumeClaim, VolumeSnapshot, VolumeSnapshotContent, keys};
use bowline_machinery::effect::{EffectError, Fate, Part};
use serde_json::json;

use super::decide::with_error;
use super::model::{Action, Observed, Problem, Snapshot};
use super::operations::{CREATE, CREATE_AND_READY};
use super::role::SnapshotController;
use crate::sidecars::snapshots::{annotation_patch, finalizers_patch, is_ready};

impl SnapshotController {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match (action, seen) {
            (Action::GuardContent, Observed::Content(seen)) => {
                let patch = finalizers_patch(seen.object.as_ref(), &[keys::SNAPSHOT_CONTENT_BOUND], &[]);
                self.effects.patch(Part::Main, seen.object.as_ref(), patch).await.map(drop)
            }
            (action, Observed::Snapshot(seen)) => self.on_snapshot(action, &seen).await,
            (action, Observed::Content(_)) => {
                Err(EffectError::refused(format!("{action:?} is not for a content")))
            }
        }
    }

    async fn on_snapshot(&self, action: Action, seen: &Snapshot) -> Result<(), EffectError> {
        let snapshot = seen.object.as_ref();
        match action {
            Action::SetDefaultClass(class) => {
                let version = &snapshot.metadata.resource_version;
                let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"volumeSnapshotClassName": class}});
                self.effects.patch(Part::Main, snapshot, patch).await.map(drop)
            }
            Action::GuardClaim => {
                let done =
                    self.change_claim(seen, |claim| claim.add_finalizer(keys::SNAPSHOT_SOURCE_CLAIM)).await;
                self.told_if_failed(snapshot, "SnapshotContentCreationFailed", CREATION_FAILED, done).await
            }
            Action::ReleaseClaim => {
                let done = self
                    .change_claim(seen, |claim| claim.remove_finalizer(keys::SNAPSHOT_SOURCE_CLAIM))
                    .await;
                let text = "Error check and remove PVC Finalizer for VolumeSnapshot";
                self.event_if_failed(snapshot, "ErrorPVCFinalizer", text, done)
            }
            Action::AddFinalizers(add) => self.finalizers(snapshot, &add, &[]).await,
            Action::RemoveFinalizers(remove) => self.finalizers(snapshot, &[], &remove).await,
            Action::CreateContent(content) => self.create_content(snapshot, *content).await,
            Action::Bind { class } => self.bind(seen, class).await,
            Action::UpdateStatus(status) => self.update_status(snapshot, *status).await,
            Action::Report(problem) => self.report(snapshot, &problem).await,
            Action::MarkBeingDeleted => {
                let content = content(seen)?;
                let patch = annotation_patch(content, keys::SNAPSHOT_BEING_DELETED, Some(keys::YES));
                self.effects.patch(Part::Main, content, patch).await.map(drop)
            }
            Action::DeleteContent => {
                let done = self.effects.delete(content(seen)?, None).await;
                let text = "Failed to delete snapshot content API object";
                self.event_if_failed(snapshot, "SnapshotContentObjectDeleteError", text, done)
            }
            Action::GuardContent => Err(EffectError::refused("a snapshot is no content")),
        }
    }

    /// Claims may only be updated as a whole; the version guards against lost updates.
    async fn change_claim(
        &self,
        seen: &Snapshot,
        change: impl FnOnce(&mut PersistentVolumeClaim),
    ) -> Result<(), EffectError> {
        let Some(claim) = &seen.claim else { return Err(EffectError::refused("the claim is gone")) };
        let mut claim = claim.as_ref().clone();
        change(&mut claim);
        match self.effects.replace(Part::Main, &claim).await {
            Err(error) if !error.not_found() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn finalizers(
        &self,
        snapshot: &VolumeSnapshot,
        add: &[&str],
        remove: &[&str],
    ) -> Result<(), EffectError> {
        let patch = finalizers_patch(snapshot, add, remove);
        match self.effects.patch(Part::Main, snapshot, patch).await {
            Err(error) if error.not_found() => Ok(()),
            Err(error) => {
                let text = format!("Failed to check and update snapshot: {error}");
                self.event_if_failed(snapshot, "SnapshotFinalizerError", text, Err(error))
            }
            Ok(_) => Ok(()),
        }
    }

    /// One of that name is ours by its UID; whether it is what it should be is decided when it is seen.
    async fn create_content(
        &self,
        snapshot: &VolumeSnapshot,
        content: VolumeSnapshotContent,
    ) -> Result<(), EffectError> {
        match self.effects.create(&content).await {
            Ok(_) => {
                self.memory.answered(snapshot.uid());
                let text =
                    format!("Waiting for a snapshot {} to be created by the CSI driver.", snapshot.key());
                self.recorder.normal(snapshot, "CreatingSnapshot", text);
                Ok(())
            }
            Err(error) if error.conflict() => {
                let there = self.effects.get_live::<VolumeSnapshotContent>("", content.name()).await?;
                self.memory.answered(snapshot.uid());
                if let Some(there) = there {
                    self.contents.note(there);
                }
                Ok(())
            }
            Err(error) => {
                if error.fate == Fate::Unknown {
                    self.memory.lost_answer(snapshot.uid(), content);
                } else {
                    self.memory.answered(snapshot.uid());
                }
                let key = snapshot.key();
                let text =
                    format!("Error creating volume snapshot content object for snapshot {key}: {error}.");
                self.recorder.warning(snapshot, "CreateSnapshotContentFailed", text);
                self.told_if_failed(snapshot, "SnapshotContentCreationFailed", CREATION_FAILED, Err(error))
                    .await
            }
        }
    }

    async fn bind(&self, seen: &Snapshot, class: Option<String>) -> Result<(), EffectError> {
        let (snapshot, content) = (seen.object.as_ref(), content(seen)?);
        let mut reference = serde_json::to_value(&content.spec.volume_snapshot_ref)
            .map_err(|error| EffectError::refused(format!("encode a reference: {error}")))?;
        reference["uid"] = json!(snapshot.uid());
        let mut patch = json!({
            "metadata": {"resourceVersion": content.metadata.resource_version},
            "spec": {"volumeSnapshotRef": reference},
        });
        if let Some(class) = class {
            patch["spec"]["volumeSnapshotClassName"] = json!(class);
        }
        let done = self.effects.patch(Part::Main, content, patch).await.map(drop);
        let text = "Snapshot failed to bind VolumeSnapshotContent, ";
        self.told_if_failed(snapshot, "SnapshotBindFailed", text, done).await
    }

    async fn update_status(
        &self,
        snapshot: &VolumeSnapshot,
        status: VolumeSnapshotStatus,
    ) -> Result<(), EffectError> {
        let old = snapshot.status.as_ref();
        let created = old.is_none_or(|old| old.creation_time.is_none()) && status.creation_time.is_some();
        let ready = status.ready_to_use == Some(true) && !is_ready(snapshot);
        let done = self.write_status(snapshot, status).await;
        let text = done.as_ref().err().map(|error| format!("Snapshot status update failed, {error}"));
        self.event_if_failed(snapshot, "SnapshotStatusUpdateFailed", text.unwrap_or_default(), done)?;
        let (key, now) = (snapshot.key(), self.ports.host.uptime.uptime());
        if created {
            let text = format!("Snapshot {key} was successfully created by the CSI driver.");
            self.recorder.normal(snapshot, "SnapshotCreated", text);
            self.memory.succeeded(&self.ports.metrics, &key, CREATE, now);
        }
        if ready {
            self.recorder.normal(snapshot, "SnapshotReady", format!("Snapshot {key} is ready to use."));
            self.memory.succeeded(&self.ports.metrics, &key, CREATE_AND_READY, now);
        }
        Ok(())
    }

    async fn report(&self, snapshot: &VolumeSnapshot, problem: &Problem) -> Result<(), EffectError> {
        let status = with_error(snapshot.status.as_ref(), problem, self.ports.host.clock.now());
        self.write_status(snapshot, status).await?;
        self.recorder.warning(snapshot, problem.reason, problem.message.clone());
        Ok(())
    }

    async fn write_status(
        &self,
        snapshot: &VolumeSnapshot,
        status: VolumeSnapshotStatus,
    ) -> Result<(), EffectError> {
        let changed = VolumeSnapshot { status: Some(status), ..snapshot.clone() };
        self.effects.replace(Part::Status, &changed).await.map(drop)
    }

    /// A failed effect shows in the status and as an event, unless its text stands there already or another client wrote in
    /// between: then it is decided again.
    async fn told_if_failed(
        &self,
        snapshot: &VolumeSnapshot,
        reason: &'static str,
        text: &str,
        done: Result<(), EffectError>,
    ) -> Result<(), EffectError> {
        if let Err(error) = &done
            && !error.conflict()
            && !error.lease_lost()
        {
            let problem = Problem { reason, message: format!("{text}{error}"), not_ready: true };
            let shown = snapshot.status.as_ref().and_then(|status| status.error.as_ref());
            if shown.and_then(|error| error.message.as_ref()) != Some(&problem.message)
                && let Err(error) = self.report(snapshot, &problem).await
            {
                tracing::debug!(snapshot = %snapshot.key(), %error, "the failure is not in the status");
            }
        }
        done
    }

    fn event_if_failed(
        &self,
        snapshot: &VolumeSnapshot,
        reason: &'static str,
        text: impl Into<String>,
        done: Result<(), EffectError>,
    ) -> Result<(), EffectError> {
        if let Err(error) = &done
            && !error.conflict()
            && !error.lease_lost()
        {
            self.recorder.warning(snapshot, reason, text);
        }
        done
    }
}

const CREATION_FAILED: &str = "Failed to create snapshot content with error ";

fn content(seen: &Snapshot) -> Result<&VolumeSnapshotContent, EffectError> {
    seen.content.as_deref().ok_or_else(|| EffectError::refused("the content is gone"))
}
