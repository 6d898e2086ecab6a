//! Caches → what the decision needs.

use bowline_api::{Meta, VolumeSnapshotContent};

use super::model::{Content, Key};
use super::role::Snapshotter;

impl Snapshotter {
    pub(super) fn see(&self, Key(name): &Key) -> Option<Content> {
        let object = self.contents.named(name)?;
        if !self.is_ours(&object) {
            return None;
        }
        let class = object.spec.volume_snapshot_class_name.as_deref();
        Some(Content {
            settings: self.settings.clone(),
            class: class.and_then(|name| self.classes.named(name)),
            answer: self.memory.answer(object.uid(), self.ports.host.uptime.uptime()),
            object,
        })
    }

    /// Our driver's, with a source, and not under a class of another driver.
    pub(super) fn is_ours(&self, content: &VolumeSnapshotContent) -> bool {
        let source = &content.spec.source;
        let class = content.spec.volume_snapshot_class_name.as_deref();
        let class = class.and_then(|name| self.classes.named(name));
        content.spec.driver == self.settings.driver
            && (source.volume_handle.is_some() || source.snapshot_handle.is_some())
            && class.is_none_or(|class| class.driver == self.settings.driver)
    }
}
