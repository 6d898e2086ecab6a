//! One effect per action.

use bowline_api::{Meta, Node, PersistentVolume, Pod, VolumeAttachment, keys, name};
use bowline_machinery::{EffectError, Step};
use k8s_openapi::api::storage::v1::{VolumeAttachmentSource, VolumeAttachmentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::decide::decide_on;
use super::measure::Operation;
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
            Action::StopTimer { node } => {
                self.memory.change(&seen.key, &node, |note| note.unwanted_since = None);
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
                self.memory.change(&seen.key, &node, |note| {
                    (note.told_error, note.tell_attached) = (told, true);
                });
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
                annotations: Some([(keys::ATTACHMENT_VOLUME_HANDLE.to_owned(), handle.to_owned())].into()),
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
        let name = name::attachment(handle, driver, node);
        self.begins(&name, Operation::Attach);
        let made = self.effects.create(&attachment).await;
        self.measure_failure(&name, driver, &made);
        made?;
        self.memory.change(&seen.key, node, |note| note.tell_attached = true);
        Ok(())
    }

    async fn report(&self, seen: &Observed, node: &str, listed: bool) -> Result<(), EffectError> {
        if !listed && self.volume_appeared(on(seen, node)?).await? {
            return Ok(());
        }
        self.reports.change(&self.effects, &self.nodes, node, &seen.key, listed).await
    }

    /// There is no way back from here: the driver takes away what may be mounted. What the decision rests on is read past
    /// the caches, and if that changes it, the next step is decided on what was read.
    async fn detach(&self, seen: &Observed, node: &str) -> Result<(), EffectError> {
        let here = on(seen, node)?;
        let Some(attachment) = &here.attachment else { return Ok(()) };
        if self.volume_appeared(here).await? {
            return Ok(());
        }
        match self.effects.get_live::<Node>("", node).await? {
            Some(live) => self.nodes.note(live),
            None if self.nodes.named(node).is_none() => {}
            // What it had in use at its end is not known before the watch says so.
            None => return Err(EffectError::refused(format!("node {node} was deleted a moment ago"))),
        }
        let detach = Step::Do(Action::Detach { node: node.to_owned() });
        let still = self.see_on(&seen.key, Some(node)).is_some_and(|now| decide_on(&now, node) == detach);
        if !still {
            return Ok(());
        }
        let object = attachment.object.as_ref();
        self.begins(object.name(), Operation::Detach);
        let deleted = self.effects.delete(object, None).await;
        self.measure_failure(object.name(), &object.spec.attacher, &deleted);
        deleted
    }

    /// Whether a volume that the cache lacks exists: pods may want it, and nothing is decided without it.
    async fn volume_appeared(&self, here: &OnNode) -> Result<bool, EffectError> {
        if here.volume.is_empty() || self.volumes.named(&here.volume).is_some() {
            return Ok(false);
        }
        // Upstream's role may list volumes and not get one.
        let Some(live) = self.effects.find_live::<PersistentVolume>("", &here.volume).await? else {
            return Ok(false);
        };
        self.volumes.note(live);
        Ok(true)
    }
}

fn on<'a>(seen: &'a Observed, node: &str) -> Result<&'a OnNode, EffectError> {
    seen.nodes.get(node).ok_or_else(|| EffectError::refused(format!("node {node} was not observed")))
}
