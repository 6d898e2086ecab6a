//! Binding: what a scheduler says of a pod. It is never stored: the server hands it on to the pod it names, so here
//! are only its names, for whoever asks what this server has.

use k8s_openapi::api::core::v1::Binding;
use serde_json::Value;

use super::{Column, Names, Rules, column};
use crate::field::Invalid;

const COLUMNS: &[Column] = &[column::NAME];

pub struct BindingRules;

impl Rules for BindingRules {
    type Object = Binding;
    const NAMES: Names = Names { plural: "bindings", singular: "binding", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const VERBS: &'static [&'static str] = &["create"];

    fn validate(_: &Binding) -> Vec<Invalid> {
        Vec::new()
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(_: &Binding, _: jiff::Timestamp) -> Vec<Value> {
        vec!["".into()]
    }
}
