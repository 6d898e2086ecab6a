//! PodSecurity: what pods may ask for in a namespace, by the namespace's labels.
//!
//! `policy` reads the labels; `evaluate` is the table of checks, which `baseline`, `profiles` and `restricted` hold; `existing` looks
//! at the pods that are there when a namespace becomes stricter. Enforced are pods only: the objects that make pods are
//! warned of, so that their authors hear of it before their pods are refused.

mod baseline;
mod evaluate;
mod existing;
mod policy;
mod profiles;
mod restricted;
mod subject;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::BTreeMap;

use bowline_api::{Namespace, Pod, keys};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::{Admission, AdmissionRequest, Lister, Operation};
use crate::field::Invalid;
use crate::status::{Resource, Status};
use evaluate::evaluate;
use policy::{Level, LevelVersion, Policy};
use subject::Subject;
use violation::Violation;

/// Of pods; whatever else there is, now or later, carries a pod and is looked at.
const UNRELATED: [&str; 8] =
    ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];
/// Kinds that make pods, and where in them the template stands.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "podtemplates", "/template"),
    ("", "replicationcontrollers", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
    ("batch", "jobs", "/spec/template"),
];

pub struct PodSecurity;

impl Admission for PodSecurity {
    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if request.operation == Operation::Delete {
            return Ok(());
        }
        match (request.group, request.plural) {
            ("", "namespaces") if request.subresource.is_empty() => namespace(request, object, lister),
            ("", "pods") if !UNRELATED.contains(&request.subresource) => pod(request, object, lister),
            (group, plural) if request.subresource.is_empty() => {
                let kind = TEMPLATES.iter().find(|kind| (kind.0, kind.1) == (group, plural));
                kind.map_or(Ok(()), |(_, _, path)| template(request, object.pointer(path), lister))
            }
            _ => Ok(()),
        }
    }
}

fn typed<T: DeserializeOwned>(object: &Value) -> Result<T, Status> {
    T::deserialize(object).map_err(Status::internal)
}

fn policy_of(namespace: &Namespace) -> (Policy, Vec<Invalid>) {
    Policy::of(&namespace.metadata.labels.clone().unwrap_or_default())
}

/// Labels that cannot be read are refused unless they were there before. What is there stays: its author is only told.
fn namespace(request: &AdmissionRequest<'_>, object: &Value, lister: &dyn Lister) -> Result<(), Status> {
    let (policy, errors) = policy_of(&typed(object)?);
    let before = request.old.map(|old| typed(old).map(|old: Namespace| policy_of(&old))).transpose()?;
    let unchanged = before.as_ref().is_some_and(|(_, old)| *old == errors);
    if !errors.is_empty() && !unchanged {
        return Err(Status::invalid(request.group, request.kind, request.name, &errors));
    }
    let Some((before, _)) = before else { return Ok(()) };
    let (new, old) = (policy.enforce, before.enforce);
    let relaxed = new.version == old.version && new.level <= old.level;
    if new.level > Level::Privileged && !relaxed {
        let pods = lister.texts("", "pods", request.name);
        existing::warnings(request.name, new, &pods).into_iter().for_each(|text| request.notes.warn(text));
    }
    Ok(())
}

/// The policy that holds where the request goes.
fn policy_here(
    request: &AdmissionRequest<'_>,
    lister: &dyn Lister,
) -> Result<(Policy, Vec<Invalid>), Status> {
    let namespace = lister.get("", "namespaces", "", request.namespace);
    let missing = || Status::internal(format!("failed to lookup namespace {:?}", request.namespace));
    Ok(policy_of(&typed(&namespace.ok_or_else(missing)?)?))
}

fn pod(request: &AdmissionRequest<'_>, object: &Value, lister: &dyn Lister) -> Result<(), Status> {
    let (policy, errors) = policy_here(request, lister)?;
    if errors.is_empty() && policy.is_privileged() {
        annotate(request, keys::POD_SECURITY_AUDIT_POLICY, LevelVersion::PRIVILEGED.to_string());
        return Ok(());
    }
    let pod: Pod = typed(object)?;
    let spec = pod.spec.unwrap_or_default();
    if let Some(old) = request.old {
        let old: Pod = typed(old)?;
        if !is_significant(&spec, &old.spec.unwrap_or_default()) {
            return Ok(());
        }
    }
    annotate(request, keys::POD_SECURITY_AUDIT_POLICY, policy.enforce.to_string());
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let subject = Subject::new(&annotations, &spec);
    let violations = evaluate(policy.enforce, &subject);
    inform(request, (&policy, &errors), &subject, violations.is_empty());
    match violations.is_empty() {
        true => Ok(()),
        false => {
            let why = text("violates", policy.enforce, &violations);
            Err(Status::forbidden(Resource { group: "", plural: "pods" }, request.name, &why))
        }
    }
}

/// A kind that need not have a template may be without one.
fn template(
    request: &AdmissionRequest<'_>,
    template: Option<&Value>,
    lister: &dyn Lister,
) -> Result<(), Status> {
    let Some(template) = template.filter(|template| !template.is_null()) else { return Ok(()) };
    let (policy, errors) = policy_here(request, lister)?;
    let silent = [policy.warn, policy.audit].iter().all(|mode| mode.level == Level::Privileged);
    if errors.is_empty() && silent {
        return Ok(());
    }
    let template: PodTemplateSpec = typed(template)?;
    let annotations = template.metadata.unwrap_or_default().annotations.unwrap_or_default();
    let spec = template.spec.unwrap_or_default();
    inform(request, (&policy, &errors), &Subject::new(&annotations, &spec), true);
    Ok(())
}

/// The modes that refuse nothing. A pod that is refused anyway needs no warning.
fn inform(
    request: &AdmissionRequest<'_>,
    (policy, errors): (&Policy, &[Invalid]),
    subject: &Subject<'_>,
    allowed: bool,
) {
    if !errors.is_empty() {
        annotate(
            request,
            keys::POD_SECURITY_AUDIT_ERROR,
            format!("Failed to parse policy: {}", listed(errors)),
        );
    }
    let violations = evaluate(policy.audit, subject);
    if !violations.is_empty() {
        annotate(
            request,
            keys::POD_SECURITY_AUDIT_VIOLATIONS,
            text("would violate", policy.audit, &violations),
        );
    }
    let violations = evaluate(policy.warn, subject);
    if allowed && !violations.is_empty() {
        request.notes.warn(text("would violate", policy.warn, &violations));
    }
}

fn text(verb: &str, policy: LevelVersion, violations: &[Violation]) -> String {
    format!("{verb} PodSecurity \"{policy}\": {}", violation::details(violations))
}

/// As Go lists several errors in one.
fn listed(errors: &[Invalid]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) }
}

fn annotate(request: &AdmissionRequest<'_>, key: &str, value: String) {
    request.notes.annotate(key.into(), value);
}

/// Whether an update changes what runs: all else that the checks look at cannot change.
fn is_significant(new: &PodSpec, old: &PodSpec) -> bool {
    type Images<'a> = Vec<Option<&'a str>>;
    fn fixed(spec: &PodSpec) -> (Images<'_>, Images<'_>) {
        let init = spec.init_containers.iter().flatten().map(|one| one.image.as_deref());
        (spec.containers.iter().map(|one| one.image.as_deref()).collect(), init.collect())
    }
    fn ephemeral(spec: &PodSpec) -> BTreeMap<&str, Option<&str>> {
        let all = spec.ephemeral_containers.iter().flatten();
        all.map(|one| (one.name.as_str(), one.image.as_deref())).collect()
    }
    let before = ephemeral(old);
    fixed(new) != fixed(old) || ephemeral(new).iter().any(|(name, image)| before.get(name) != Some(image))
}
