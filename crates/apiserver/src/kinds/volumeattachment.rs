//! VolumeAttachment: a volume shall be, or is, reachable from a node.

use bowline_api::{Meta, VolumeAttachment, volume};
use k8s_openapi::api::storage::v1::{VolumeAttachmentSource, VolumeAttachmentStatus, VolumeError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::check::{self, go, names};
use super::persistentvolume::spec;
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const METADATA_MAX: usize = 256 << 10;
const MESSAGE_MAX: usize = 1024;
const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::name("Attacher", "The driver that attaches."),
    column::text("PV", "The volume."),
    column::text("Node", "The node."),
    column::flag("Attached", "Whether the volume is attached."),
    column::AGE,
];

pub struct VolumeAttachmentRules;

impl Rules for VolumeAttachmentRules {
    type Object = VolumeAttachment;
    const NAMES: Names =
        Names { plural: "volumeattachments", singular: "volumeattachment", short: &[], categories: &[] };
    const NAMESPACED: bool = false;
    const STATUS: bool = true;
    const UNCONDITIONAL_UPDATE: bool = false;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn default_fields(attachment: &mut VolumeAttachment) {
        attachment.status.get_or_insert_default();
    }

    fn prepare_create(attachment: &mut VolumeAttachment, _now: jiff::Timestamp) {
        attachment.status = Some(VolumeAttachmentStatus::default());
    }

    fn prepare_update(new: &mut VolumeAttachment, old: &VolumeAttachment) {
        new.status = old.status.clone();
    }

    /// The status is all that goes through: neither spec nor metadata.
    fn prepare_status(new: &mut VolumeAttachment, old: &VolumeAttachment, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
        let (meta, old) = (&mut new.metadata, &old.metadata);
        *meta = ObjectMeta {
            deletion_timestamp: old.deletion_timestamp.clone(),
            deletion_grace_period_seconds: old.deletion_grace_period_seconds,
            generation: old.generation,
            labels: old.labels.clone(),
            annotations: old.annotations.clone(),
            finalizers: old.finalizers.clone(),
            owner_references: old.owner_references.clone(),
            ..std::mem::take(meta)
        };
    }

    fn validate(attachment: &VolumeAttachment) -> Vec<Invalid> {
        let spec = &attachment.spec;
        let mut errors = names::driver("spec.attacher", &spec.attacher);
        errors.extend(source_errors(&spec.source));
        errors.extend(names::subdomain("spec.nodeName", &spec.node_name));
        errors.extend(status_errors(attachment));
        if let Some(name) = &spec.source.persistent_volume_name {
            errors.extend(names::subdomain("spec.source.persistentVolumeName", name));
        }
        errors
    }

    fn validate_update(new: &VolumeAttachment, old: &VolumeAttachment) -> Vec<Invalid> {
        go::immutable("spec", "storage.v1.VolumeAttachmentSpec", &new.spec, &old.spec).into_iter().collect()
    }

    fn validate_status(new: &VolumeAttachment, _old: &VolumeAttachment) -> Vec<Invalid> {
        status_errors(new)
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(attachment: &VolumeAttachment, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            attachment.name().into(),
            attachment.spec.attacher.as_str().into(),
            volume::attachment_volume(attachment).unwrap_or_default().into(),
            attachment.spec.node_name.as_str().into(),
            volume::attached(attachment).into(),
            age::age(&attachment.metadata, now).into(),
        ]
    }
}

fn source_errors(source: &VolumeAttachmentSource) -> Vec<Invalid> {
    match (&source.inline_volume_spec, &source.persistent_volume_name) {
        (None, None) => vec![Invalid::required("spec.source", ONE)],
        (Some(_), Some(_)) => vec![Invalid::forbidden("spec.source", ONE)],
        (Some(inline), None) => spec::inline_errors("spec.source.inlineVolumeSpec", inline),
        (None, Some(name)) if name.is_empty() => {
            let text = "must specify non empty persistentVolumeName";
            vec![Invalid::required("spec.source.persistentVolumeName", text)]
        }
        (None, Some(_)) => Vec::new(),
    }
}

fn status_errors(attachment: &VolumeAttachment) -> Vec<Invalid> {
    let Some(status) = &attachment.status else { return Vec::new() };
    let mut errors = Vec::new();
    let metadata = status.attachment_metadata.iter().flatten();
    if metadata.map(|(key, value)| key.len() + value.len()).sum::<usize>() > METADATA_MAX {
        errors.push(check::too_long("status.attachmentMetadata", METADATA_MAX));
    }
    errors.extend(volume_error_errors("status.attachError", status.attach_error.as_ref()));
    errors.extend(volume_error_errors("status.detachError", status.detach_error.as_ref()));
    errors
}

fn volume_error_errors(at: &str, error: Option<&VolumeError>) -> Vec<Invalid> {
    let Some(error) = error else { return Vec::new() };
    let mut errors = Vec::new();
    if error.message.as_ref().is_some_and(|message| message.len() > MESSAGE_MAX) {
        // Upstream names the limit of another field.
        errors.push(check::too_long(format!("{at}.message"), METADATA_MAX));
    }
    if let Some(code) = error.error_code.filter(|code| *code < 0) {
        let text = check::range_text(0, i32::MAX.into());
        errors.push(Invalid::invalid(format!("{at}.errorCode"), code, text));
    }
    errors
}
