//! Namespace: where names are unique.
//!
//! Deleting one takes its content along; that is the verbs' work. `spec.finalizers` is kept for clients that read it.

use bowline_api::{Meta, Namespace, keys, name};
use k8s_openapi::api::core::v1::NamespaceStatus;
use serde_json::Value;

use super::check::names;
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const ACTIVE: &str = "Active";
const TERMINATING: &str = "Terminating";
/// A cluster without these would not work.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

const COLUMNS: &[Column] = &[column::NAME, column::text("Status", "Phase of the namespace."), column::AGE];

pub struct NamespaceRules;

fn phase(namespace: &Namespace) -> &str {
    namespace.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

impl Rules for NamespaceRules {
    type Object = Namespace;
    const NAMES: Names =
        Names { plural: "namespaces", singular: "namespace", short: &["ns"], categories: &[] };
    const NAMESPACED: bool = false;
    const VERBS: &'static [&'static str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
    const STATUS: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;
    const FIELD_LABELS: &'static [&'static str] = &["status.phase"];

    fn default_fields(namespace: &mut Namespace) {
        if let Some(name) = namespace.metadata.name.clone().filter(|name| !name.is_empty()) {
            let labels = namespace.metadata.labels.get_or_insert_default();
            labels.insert(keys::NAMESPACE_NAME_LABEL.into(), name);
        }
        let status = namespace.status.get_or_insert_default();
        if status.phase.as_deref().unwrap_or_default().is_empty() {
            status.phase = Some(ACTIVE.into());
        }
    }

    fn prepare_create(namespace: &mut Namespace, _now: jiff::Timestamp) {
        // The name may have been generated only now.
        Self::default_fields(namespace);
        namespace.status = Some(NamespaceStatus { phase: Some(ACTIVE.into()), conditions: None });
        let finalizers = namespace.spec.get_or_insert_default().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|f| f == keys::NAMESPACE_FINALIZER) {
            finalizers.push(keys::NAMESPACE_FINALIZER.into());
        }
    }

    fn prepare_update(new: &mut Namespace, old: &Namespace) {
        new.spec = old.spec.clone();
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut Namespace, old: &Namespace, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(namespace: &Namespace) -> Vec<Invalid> {
        let finalizers = namespace.spec.as_ref().and_then(|s| s.finalizers.as_deref()).unwrap_or_default();
        let foreign = finalizers.iter().filter(|f| *f != keys::NAMESPACE_FINALIZER);
        foreign.flat_map(|f| finalizer_errors(f)).collect()
    }

    fn validate_status(new: &Namespace, _old: &Namespace) -> Vec<Invalid> {
        let (want, text) = if new.deleting() {
            (TERMINATING, "may only be 'Terminating' if `deletionTimestamp` is not empty")
        } else {
            (ACTIVE, "may only be 'Active' if `deletionTimestamp` is empty")
        };
        let wrong = phase(new) != want;
        wrong.then(|| Invalid::invalid("status.Phase", phase(new), text)).into_iter().collect()
    }

    fn name_errors(name: &str) -> Vec<String> {
        name::label_errors(name)
    }

    fn delete_refusal(namespace: &Namespace) -> Option<&'static str> {
        IMMORTAL.contains(&namespace.name()).then_some("this namespace may not be deleted")
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(namespace: &Namespace, now: jiff::Timestamp) -> Vec<Value> {
        vec![namespace.name().into(), phase(namespace).into(), age::age(&namespace.metadata, now).into()]
    }

    fn field_labels(namespace: &Namespace) -> Vec<(&'static str, String)> {
        vec![("status.phase", phase(namespace).to_owned())]
    }
}

/// Finalizers of others are qualified names, with a prefix unless they are standard.
fn finalizer_errors(finalizer: &str) -> Vec<Invalid> {
    let mut errors = names::qualified("spec.finalizers", finalizer);
    if errors.is_empty() && !finalizer.contains('/') {
        let text = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Invalid::invalid("spec.finalizers", finalizer, text));
    }
    errors
}
