//! Actions → one effect each.

use std::collections::BTreeMap;

use bowline_api::snapshot::{DELETE, VolumeSnapshotContentStatus};
use bowline_api::{Meta, VolumeSnapshotContent, keys};
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, Fate, Part, describe};
use bowline_machinery::secrets;
use bowline_proto::csi::v1::{CreateSnapshotRequest, DeleteSnapshotRequest, ListSnapshotsRequest, Snapshot};
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tonic::Code;

use super::decide::{merged, should_delete};
use super::model::{Action, Answer, Content, Report};
use super::role::Snapshotter;
use crate::sidecars::snapshots::{annotation_patch, finalizers_patch};

impl Snapshotter {
    pub(super) async fn perform(&self, action: Action, seen: &Content) -> Result<(), EffectError> {
        let (content, uid) = (seen.object.as_ref(), seen.object.uid());
        match action {
            Action::MarkBeingCreated => {
                let patch = annotation_patch(content, keys::SNAPSHOT_BEING_CREATED, Some(keys::YES));
                self.effects.patch(Part::Main, content, patch).await?;
                self.memory.marked(uid);
                Ok(())
            }
            Action::UnmarkBeingCreated => {
                let patch = annotation_patch(content, keys::SNAPSHOT_BEING_CREATED, None);
                self.effects.patch(Part::Main, content, patch).await.map(drop)
            }
            Action::Create { request, secret } => self.create(content, *request, secret).await,
            Action::List { handle, secret } => self.list(content, handle, secret).await,
            Action::AssumeReady { handle } => {
                let creation_time = self.now();
                let report = Report { handle, creation_time, ready: true, ..Report::default() };
                self.save_status(content, merged(content.status.as_ref(), &report)).await
            }
            Action::SaveStatus(status) => self.save_status(content, *status).await,
            Action::Delete { handle, secret } => self.delete(content, handle, secret).await,
            Action::ClearStatus => {
                let gone = ["snapshotHandle", "readyToUse", "creationTime", "restoreSize"];
                let status: BTreeMap<&str, Value> = gone.map(|field| (field, Value::Null)).into();
                self.effects
                    .patch(Part::Status, content, status_patch(content, &json!(status)))
                    .await
                    .map(drop)
            }
            Action::RemoveFinalizer => {
                let patch = finalizers_patch(content, &[], &[keys::SNAPSHOT_CONTENT_BOUND]);
                match self.effects.patch(Part::Main, content, patch).await {
                    Err(error) if !error.not_found() => Err(error),
                    Ok(_) | Err(_) => Ok(()),
                }
            }
        }
    }

    async fn create(
        &self,
        content: &VolumeSnapshotContent,
        mut request: CreateSnapshotRequest,
        secret: Option<SecretReference>,
    ) -> Result<(), EffectError> {
        request.secrets = self.secrets(content, secret.as_ref()).await?;
        let (uid, volume) = (content.uid(), request.source_volume_id.clone());
        let first = self.memory.sends(uid);
        let send = |request| async move { self.driver.controller().create_snapshot(request).await };
        let (rpc, object) = ("CreateSnapshot", describe(content));
        let answer = call(&self.effects, rpc, &object, self.timeout, Classes::Default, request, send).await;
        match answer.map(|answer| answer.snapshot) {
            Ok(Some(made)) => {
                self.reported(content, made);
                Ok(())
            }
            Ok(None) => Err(EffectError::unknown("the driver's answer to CreateSnapshot has no snapshot")),
            Err(mut error) => {
                if error.lease_lost() && error.fate == Fate::Refused {
                    self.memory.not_sent(uid, first);
                    return Err(error);
                }
                error.message =
                    format!("failed to take snapshot of the volume {volume}: \"{}\"", error.message);
                // An earlier call may have made the snapshot: most refusals of a repeat say nothing about that.
                if error.fate == Fate::Unknown || !(first || proves_absence(error.code)) {
                    return Err(error);
                }
                self.memory.set(uid, Answer::Refused(error.message));
                Ok(())
            }
        }
    }

    async fn list(
        &self,
        content: &VolumeSnapshotContent,
        snapshot_id: String,
        secret: Option<SecretReference>,
    ) -> Result<(), EffectError> {
        let secrets = self.secrets(content, secret.as_ref()).await?;
        let request =
            ListSnapshotsRequest { snapshot_id: snapshot_id.clone(), secrets, ..Default::default() };
        let send = |request| async move { self.driver.controller().list_snapshots(request).await };
        let (rpc, object) = ("ListSnapshots", describe(content));
        let answer = call(&self.effects, rpc, &object, self.timeout, Classes::Default, request, send).await?;
        let found = answer.entries.into_iter().next().and_then(|entry| entry.snapshot);
        let found = found.ok_or_else(|| {
            EffectError::refused(format!("can not find snapshot for snapshotID {snapshot_id}"))
        })?;
        self.reported(content, found);
        Ok(())
    }

    fn reported(&self, content: &VolumeSnapshotContent, made: Snapshot) {
        // CSI demands the time; one that is missing would read as 1970.
        let time = made.creation_time.map(|time| time.seconds * 1_000_000_000 + i64::from(time.nanos));
        let report = Report {
            handle: made.snapshot_id,
            creation_time: time.unwrap_or_else(|| self.now()),
            size: made.size_bytes,
            ready: made.ready_to_use,
            group_handle: Some(made.group_snapshot_id).filter(|group| !group.is_empty()),
        };
        self.memory.reported(content.uid(), report, self.ports.host.uptime.uptime(), self.backoff);
    }

    /// What may be deleted is read past the cache: an administrator may have decided just now to keep it.
    async fn delete(
        &self,
        content: &VolumeSnapshotContent,
        snapshot_id: String,
        secret: Option<SecretReference>,
    ) -> Result<(), EffectError> {
        let live = self.effects.get_live::<VolumeSnapshotContent>("", content.name()).await?;
        let handle = |one: &VolumeSnapshotContent| {
            one.status.as_ref().and_then(|status| status.snapshot_handle.clone())
        };
        let same = live.as_ref().is_some_and(|live| {
            live.uid() == content.uid()
                && live.spec.deletion_policy == DELETE
                && should_delete(live)
                && handle(live).as_ref() == Some(&snapshot_id)
        });
        if !same {
            if let Some(live) = live {
                self.contents.note(live);
            }
            return Err(EffectError { code: 409, ..EffectError::refused("the content has changed") });
        }
        let secrets = self.secrets(content, secret.as_ref()).await?;
        let request = DeleteSnapshotRequest { snapshot_id, secrets };
        let send = |request| async move { self.driver.controller().delete_snapshot(request).await };
        let (rpc, object) = ("DeleteSnapshot", describe(content));
        call(&self.effects, rpc, &object, self.timeout, Classes::Default, request, send).await?;
        self.memory.set(content.uid(), Answer::Deleted);
        Ok(())
    }

    async fn save_status(
        &self,
        content: &VolumeSnapshotContent,
        status: VolumeSnapshotContentStatus,
    ) -> Result<(), EffectError> {
        let mut value = serde_json::to_value(&status)
            .map_err(|error| EffectError::refused(format!("encode a status: {error}")))?;
        if status.error.is_none() {
            value["error"] = Value::Null;
        }
        self.effects.patch(Part::Status, content, status_patch(content, &value)).await.map(drop)
    }

    /// Says in the status and as an event why an attempt failed; once per text (5.10, 8). Failing to say so changes nothing.
    pub(super) async fn tell_failure(&self, content: &VolumeSnapshotContent, error: &EffectError) {
        if should_delete(content) {
            self.recorder.warning(
                content,
                "SnapshotDeleteError",
                format!("Failed to delete snapshot: {error}"),
            );
            return;
        }
        let (reason, what) = match &content.status {
            None => ("SnapshotCreationFailed", "Failed to create snapshot"),
            Some(_) => ("SnapshotContentCheckandUpdateFailed", "Failed to check and update snapshot content"),
        };
        let message = format!("{what}: {error}");
        let shown = content.status.as_ref().and_then(|status| status.error.as_ref());
        if shown.and_then(|error| error.message.as_ref()) == Some(&message) {
            return;
        }
        let time = jiff::Timestamp::from_second(self.ports.host.clock.now().as_second()).ok().map(Time);
        let status = json!({"readyToUse": false, "error": {"time": time, "message": message}});
        match self.effects.patch(Part::Status, content, status_patch(content, &status)).await {
            Ok(_) => self.recorder.warning(content, reason, message),
            Err(error) => {
                tracing::debug!(content = content.name(), %error, "the failure is not in the status")
            }
        }
    }

    async fn secrets(
        &self,
        content: &VolumeSnapshotContent,
        reference: Option<&SecretReference>,
    ) -> Result<BTreeMap<String, String>, EffectError> {
        let Some(reference) = reference else { return Ok(BTreeMap::new()) };
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let read = secrets::read(&self.effects, &part(&reference.namespace), &part(&reference.name)).await;
        read.map_err(|mut error| {
            let name = content.name();
            error.message =
                format!("cannot get credentials for snapshot content \"{name}\": {}", error.message);
            error
        })
    }

    fn now(&self) -> i64 {
        let now = self.ports.host.clock.now().as_nanosecond();
        i64::try_from(now).unwrap_or(i64::MAX)
    }
}

/// A merge patch of the status of exactly the object that was seen: another one may have its name by now.
fn status_patch(content: &VolumeSnapshotContent, status: &Value) -> Value {
    json!({"metadata": {"resourceVersion": content.metadata.resource_version}, "status": status})
}

/// Whether the refusal of a repeat says that an earlier call made nothing. CSI wants OK for a snapshot that is there, so what
/// is wrong with the request says so; the caller's rights and the state of the backend do not.
pub(super) fn proves_absence(code: i32) -> bool {
    [Code::InvalidArgument, Code::NotFound, Code::OutOfRange, Code::Unimplemented]
        .map(|code| code as i32)
        .contains(&code)
}
