//! PodTemplate: a template that nothing uses, stored.

use bowline_api::Meta;
use k8s_openapi::api::core::v1::PodTemplate;
use serde_json::Value;

use super::template;
use crate::field::Invalid;
use crate::kinds::pod::spec;
use crate::kinds::{Column, DeleteReply, Names, Rules, column};

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Containers", "Names of the containers."),
    column::text("Images", "Images of the containers."),
    column::text("Pod Labels", "Labels that pods would get."),
];

pub struct PodTemplateRules;

impl Rules for PodTemplateRules {
    type Object = PodTemplate;
    const NAMES: Names =
        Names { plural: "podtemplates", singular: "podtemplate", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const GENERATION: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn default_fields(object: &mut PodTemplate) {
        template::fill(object.template.get_or_insert_default());
    }

    fn validate(object: &PodTemplate) -> Vec<Invalid> {
        spec::template_errors("template", &object.template.clone().unwrap_or_default())
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(object: &PodTemplate, _now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = template::shown(object.template.as_ref());
        let labels = object.template.as_ref().and_then(template::labels);
        vec![object.name().into(), names.into(), images.into(), template::shown_labels(labels).into()]
    }
}
