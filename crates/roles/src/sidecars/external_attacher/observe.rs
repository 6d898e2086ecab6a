//! Caches → what the decision needs.

use std::sync::Arc;

use bowline_api::{Meta, PersistentVolume, VolumeAttachment, keys, volume};
use bowline_machinery::capability;
use bowline_proto::csi::v1::VolumeCapability;
use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolumeSpec};

use super::model::{Attachment, Key, Observed, Source, Target, Volume};
use super::role::Attacher;
use crate::indexes;

impl Attacher {
    pub(super) fn see(&self, key: &Key) -> Option<Observed> {
        match key {
            Key::Attachment(name) => {
                self.see_attachment(name).map(|seen| Observed::Attachment(Box::new(seen)))
            }
            Key::Volume(name) => self.see_volume(name).map(Observed::Volume),
            Key::Listing => Some(Observed::Listing { listed: self.listed.get() }),
        }
    }

    pub(super) fn see_attachment(&self, name: &str) -> Option<Attachment> {
        let object = self.attachments.named(name)?;
        if object.spec.attacher != self.driver_name {
            return None;
        }
        Some(Attachment {
            driver_publishes: self.publishes,
            deleting: object.deleting(),
            guarded: object.has_finalizer(&self.finalizer),
            noted_node_id: object.annotation(keys::ATTACHMENT_NODE_ID).map(String::from),
            noted_handle: object.annotation(keys::ATTACHMENT_VOLUME_HANDLE).map(String::from),
            attached: volume::attached(&object),
            source: self.source_of(&object),
            node_id: self.node_id(&object.spec.node_name),
            answer: self.answers.get(&object),
            forced: self.forced.get(name),
            object,
        })
    }

    fn see_volume(&self, name: &str) -> Option<Volume> {
        let object = self.volumes.named(name)?;
        Some(Volume {
            deleting: object.deleting(),
            guarded: object.has_finalizer(&self.finalizer),
            attachments: self.attachments.indexed(indexes::ATTACHMENTS_OF_VOLUME, name).len(),
            object,
        })
    }

    fn source_of(&self, attachment: &VolumeAttachment) -> Source {
        let source = &attachment.spec.source;
        match (&source.persistent_volume_name, &source.inline_volume_spec) {
            (Some(name), None) => match self.volumes.named(name) {
                Some(volume) => self.volume_source(volume),
                None => Source::Missing(name.clone()),
            },
            (None, Some(spec)) => match self.target(spec) {
                Some(target) => Source::Inline(target),
                None => Source::Foreign("inline".into()),
            },
            (Some(_), Some(_)) | (None, None) => Source::Unclear,
        }
    }

    fn volume_source(&self, object: Arc<PersistentVolume>) -> Source {
        match object.spec.as_ref().and_then(|spec| self.target(spec)) {
            Some(target) => Source::Volume {
                deleting: object.deleting(),
                guarded: object.has_finalizer(&self.finalizer),
                object,
                target,
            },
            None => Source::Foreign(object.name().to_owned()),
        }
    }

    fn target(&self, spec: &PersistentVolumeSpec) -> Option<Target> {
        let csi = spec.csi.as_ref().filter(|csi| csi.driver == self.driver_name)?;
        Some(Target {
            handle: csi.volume_handle.clone(),
            capability: self.capability(spec, csi),
            read_only: self.publishes_read_only && csi.read_only.unwrap_or(false),
            context: csi.volume_attributes.clone().unwrap_or_default(),
            secret: csi.controller_publish_secret_ref.clone(),
        })
    }

    fn capability(
        &self,
        spec: &PersistentVolumeSpec,
        csi: &CSIPersistentVolumeSource,
    ) -> Result<VolumeCapability, String> {
        let modes = spec.access_modes.as_deref().unwrap_or_default();
        let mode = capability::access_mode(modes, self.single_node)?;
        if spec.volume_mode.as_deref() == Some(volume::BLOCK) {
            return Ok(capability::block(mode));
        }
        let fs_type = csi.fs_type.as_deref().filter(|t| !t.is_empty()).unwrap_or(&self.flags.default_fstype);
        Ok(capability::mount(mode, fs_type, spec.mount_options.as_deref().unwrap_or_default()))
    }

    /// What our driver calls a node; `None` while the driver is not registered there.
    fn node_id(&self, node: &str) -> Option<String> {
        let node = self.nodes.named(node)?;
        node.spec.drivers.iter().find(|d| d.name == self.driver_name).map(|d| d.node_id.clone())
    }
}
