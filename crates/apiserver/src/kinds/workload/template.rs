//! The template of pods, and the selector that finds them again.

use std::collections::BTreeMap;

use bowline_api::selector;
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::field::Invalid;
use crate::kinds::check::{same, selectors};
use crate::kinds::pod::{defaults, spec};

pub const AT: &str = "spec.template";
pub const SELECTOR: &str = "spec.selector";
const MISMATCH: &str = "`selector` does not match template `labels`";

pub fn fill(template: &mut PodTemplateSpec) {
    defaults::fill_spec(template.spec.get_or_insert_default());
}

pub fn labels(template: &PodTemplateSpec) -> Option<&BTreeMap<String, String>> {
    template.metadata.as_ref().and_then(|meta| meta.labels.as_ref())
}

pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// A selector that has to be there. Our type does not tell an empty one from none; both find no pods.
pub fn selector_errors(selector: &LabelSelector) -> Vec<Invalid> {
    if is_empty(selector) {
        return vec![Invalid::required(SELECTOR, "")];
    }
    selectors::label_selector(SELECTOR, selector)
}

/// The selector finds what the template makes.
pub fn mismatch(at: &str, selector: &LabelSelector, template: &PodTemplateSpec) -> Option<Invalid> {
    let found = !is_empty(selector) && selector::matches(selector, labels(template));
    (!found)
        .then(|| Invalid::invalid(format!("{at}.metadata.labels"), same::json(&labels(template)), MISMATCH))
}

/// Selector and template of the kinds that keep a number of pods; upstream names one of them in its complaints.
pub fn pair_errors(selector: &LabelSelector, template: &PodTemplateSpec, kind: &str) -> Vec<Invalid> {
    let mut errors = selector_errors(selector);
    if !errors.is_empty() && !is_empty(selector) {
        let text = "invalid label selector";
        errors.push(Invalid::invalid(SELECTOR, same::json(selector), text));
        return errors;
    }
    errors.extend(mismatch(AT, selector, template));
    errors.extend(spec::template_errors(AT, template));
    errors.extend(lasting_errors(AT, template, kind));
    errors
}

/// Pods that are replaced whenever they end may not end by themselves.
pub fn lasting_errors(at: &str, template: &PodTemplateSpec, kind: &str) -> Vec<Invalid> {
    let spec = template.spec.clone().unwrap_or_default();
    let policy = spec.restart_policy.unwrap_or_default();
    let mut errors = Vec::new();
    if policy != "Always" {
        errors.push(Invalid::not_supported(format!("{at}.spec.restartPolicy"), policy, &["Always"]));
    }
    if spec.active_deadline_seconds.is_some() {
        let text = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(Invalid::forbidden(format!("{at}.spec.activeDeadlineSeconds"), text));
    }
    errors
}

/// Names and images of the containers, as the wide columns show them.
pub fn shown(template: Option<&PodTemplateSpec>) -> [String; 2] {
    let containers =
        template.and_then(|template| template.spec.as_ref()).map(|spec| spec.containers.as_slice());
    let listed = |part: fn(&Container) -> &str| {
        containers.unwrap_or_default().iter().map(part).collect::<Vec<_>>().join(",")
    };
    [listed(|one| &one.name), listed(|one| one.image.as_deref().unwrap_or_default())]
}

/// A selector as text, `<none>` if it is empty.
pub fn shown_selector(selector: &LabelSelector) -> String {
    let text = selectors::text(selector);
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// Labels as text.
pub fn shown_labels(labels: Option<&BTreeMap<String, String>>) -> String {
    let pairs: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// Labels of the template become those of the object if it has none.
pub fn lend_labels(meta: &mut ObjectMeta, template: Option<&PodTemplateSpec>) {
    let own = meta.labels.as_ref().is_some_and(|labels| !labels.is_empty());
    if let Some(labels) = template.and_then(labels).filter(|_| !own) {
        meta.labels = Some(labels.clone());
    }
}
