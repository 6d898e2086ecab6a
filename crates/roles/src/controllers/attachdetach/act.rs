//! One effect per action.

use bowline_api::{Pod, VolumeAttachment, name};
use bowline_machinery::EffectError;
use k8s_openapi::api::storage::v1::{VolumeAttachmentSource, VolumeAttachmentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::model::{Action, Observed, OnNode};
use super::observe::attach_error;
use super::role::Controller;

impl Controller {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        match action {
            Action::Attach { node } => self.attach(seen, &node).await,
            Action::Report { node } => self.report(seen, &node, true).await,
            Action::Unreport { node } => self.report(seen, &node, false).await,
            Action::Detach { node } => self.detach(seen, &node).await,
            Action::StartTimer { node } => {
                let now = self.ports.host.uptime.uptime();
                self.memory.change(&seen.key, &node, |note| note.unwanted_since = Some(now));
                Ok(())
            }
            Action::TellAttached { node } => {
                let on = on(seen, &node)?;
                let text = format!("AttachVolume.Attach succeeded for volume \"{}\" ", on.volume);
                on.pods
                    .iter()
                    .for_each(|pod| self.recorder.normal::<Pod>(pod, "SuccessfulAttachVolume", &text));
                self.memory.change(&seen.key, &node, |note| note.tell_attached = false);
                Ok(())
            }
            Action::TellFailed { node, error } => {
                let on = on(seen, &node)?;
                self.tell_failed(seen, &node, &error);
                let told = on.attachment.as_ref().and_then(|a| attach_error(&a.object));
                self.memory.change(&seen.key, &node, |note| note.told_error = told);
                Ok(())
            }
            Action::TellWaiting { node, why } => {
                self.warn(on(seen, &node)?, &why.to_string());
                self.memory.change(&seen.key, &node, |note| note.told_waiting = true);
                Ok(())
            }
        }
    }

    pub(super) fn tell_failed(&self, seen: &Observed, node: &str, error: &str) {
        if let Some(on) = seen.nodes.get(node) {
            self.warn(on, &format!("AttachVolume.Attach failed for volume \"{}\" : {error}", on.volume));
        }
    }

    fn warn(&self, on: &OnNode, text: &str) {
        on.pods.iter().for_each(|pod| self.recorder.warning::<Pod>(pod, "FailedAttachVolume", text));
    }

    /// The name is derived, so a repeat after a lost answer meets the object that the first try made.
    async fn attach(&self, seen: &Observed, node: &str) -> Result<(), EffectError> {
        let on = on(seen, node)?;
        let (driver, handle) = name::split_unique_volume(&seen.key)
            .ok_or_else(|| EffectError::refused(format!("`{}` is not a CSI volume", seen.key)))?;
        let attachment = VolumeAttachment {
            metadata: ObjectMeta {
                name: Some(name::attachment(handle, driver, node)),
                ..ObjectMeta::default()
            },
            spec: VolumeAttachmentSpec {
                attacher: driver.to_owned(),
                node_name: node.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: Some(on.volume.clone()),
                    inline_volume_spec: None,
                },
            },
            status: None,
        };
        self.effects.create(&attachment).await.map(drop)
    }

    async fn report(&self, seen: &Observed, node: &str, listed: bool) -> Result<(), EffectError> {
        self.reports.change(&self.effects, &self.nodes, node, &seen.key, listed).await
    }

    async fn detach(&self, seen: &Observed, node: &str) -> Result<(), EffectError> {
        match &on(seen, node)?.attachment {
            Some(attachment) => self.effects.delete(attachment.object.as_ref(), None).await,
            None => Ok(()),
        }
    }
}

fn on<'a>(seen: &'a Observed, node: &str) -> Result<&'a OnNode, EffectError> {
    seen.nodes.get(node).ok_or_else(|| EffectError::refused(format!("node {node} was not observed")))
}
