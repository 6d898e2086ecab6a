//! VolumeAttributesClass: what a volume can be told while it is in use.

use bowline_api::Meta;
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde_json::Value;

use super::check::{parameters, same};
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const COLUMNS: &[Column] =
    &[column::NAME, column::text("DriverName", "Driver that knows the parameters."), column::AGE];

pub struct VolumeAttributesClassRules;

impl Rules for VolumeAttributesClassRules {
    type Object = VolumeAttributesClass;
    const NAMES: Names = Names {
        plural: "volumeattributesclasses",
        singular: "volumeattributesclass",
        short: &["vac"],
        categories: &[],
    };
    const NAMESPACED: bool = false;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn validate(class: &VolumeAttributesClass) -> Vec<Invalid> {
        let mut errors = parameters::provisioner("driverName", &class.driver_name);
        errors.extend(parameters::errors("parameters", class.parameters.as_ref()));
        if class.parameters.as_ref().is_none_or(|parameters| parameters.is_empty()) {
            errors.push(Invalid::required("parameters", "must contain at least one key/value pair"));
        }
        errors
    }

    /// Volumes remember the name of a class, not what it said.
    fn validate_change(new: &VolumeAttributesClass, old: &VolumeAttributesClass) -> Vec<Invalid> {
        let changed = [
            ("driverName", new.driver_name != old.driver_name),
            ("parameters", !same::same(&new.parameters, &old.parameters)),
        ];
        let changed = changed.into_iter().filter(|(_, changed)| *changed);
        let refused = |(field, _)| Invalid::forbidden(field, format!("updates to {field} are forbidden."));
        changed.map(refused).chain(Self::validate(new)).collect()
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(class: &VolumeAttributesClass, now: jiff::Timestamp) -> Vec<Value> {
        vec![class.name().into(), class.driver_name.as_str().into(), age::age(&class.metadata, now).into()]
    }
}
