//! Indexes that several roles share: a name and its function stand together, so one name never means two things.

use bowline_api::VolumeAttachment;
use bowline_api::volume;
use bowline_machinery::Cache;

/// Attachments by the name of their volume.
pub const ATTACHMENTS_OF_VOLUME: &str = "attachments-of-volume";
/// Attachments by the name of their node.
pub const ATTACHMENTS_ON_NODE: &str = "attachments-on-node";

pub fn attachments(cache: &Cache<VolumeAttachment>) {
    cache.index(ATTACHMENTS_OF_VOLUME, |a| {
        volume::attachment_volume(a).map(String::from).into_iter().collect()
    });
    cache.index(ATTACHMENTS_ON_NODE, |a| vec![a.spec.node_name.clone()]);
}
