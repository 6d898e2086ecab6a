//! May somebody do something, and what may I do at all.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::AUTHORIZATION;
use crate::auth::attributes::{Attributes, ResourceAttributes, equalities};
use crate::auth::authorize::Mode;
use crate::auth::rbac::Rule;
use crate::auth::user::User;
use crate::core::Core;
use crate::field::Invalid;
use crate::metadata;
use crate::status::Status;

/// `spec` of the three kinds; a review of oneself names no user.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
    resource_attributes: Option<Resource>,
    non_resource_attributes: Option<Path>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    namespace: String,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
    field_selector: Option<Selector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    raw_selector: String,
    requirements: Vec<Requirement>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Path {
    path: String,
    verb: String,
}

pub fn review(core: &Core, caller: &User, mut review: Value) -> Result<Value, Status> {
    let own = review["kind"] == "SelfSubjectAccessReview";
    let local = review["kind"] == "LocalSubjectAccessReview";
    let spec = match &review["spec"] {
        Value::Null => Spec::default(),
        spec => Spec::deserialize(spec).map_err(|error| Status::bad_request(error.to_string()))?,
    };
    let errors = errors(&review, &spec, own, local);
    if !errors.is_empty() {
        // Upstream leaves the kind out.
        return Err(Status::invalid(AUTHORIZATION, "", "", &errors));
    }
    let Spec { user: name, uid, groups, extra, resource_attributes, non_resource_attributes } = spec;
    let user = if own { caller.clone() } else { User { name, uid, groups, extra } };
    let asked = match (resource_attributes, non_resource_attributes) {
        (Some(resource), _) => Attributes::Resource(resource.into()),
        (None, path) => {
            let Path { path, verb } = path.unwrap_or_default();
            Attributes::Path { verb, path }
        }
    };
    let decision = core.access.authorizer().decide(&user, &asked);
    review["status"] = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        review["status"]["reason"] = decision.reason.into();
    }
    Ok(review)
}

impl From<Resource> for ResourceAttributes {
    fn from(asked: Resource) -> Self {
        let Resource { namespace, verb, group, version, resource, subresource, name, field_selector } = asked;
        let fields = field_selector.map(Selector::equalities).unwrap_or_default();
        Self { verb, group, version, resource, subresource, namespace, name, fields }
    }
}

impl Selector {
    fn equalities(self) -> Vec<(String, String)> {
        let wanted = self.requirements.into_iter().filter(|wanted| wanted.operator == "In");
        let single = wanted.filter(|wanted| wanted.values.len() == 1);
        let listed = single.map(|mut wanted| (wanted.key, wanted.values.remove(0)));
        equalities(&self.raw_selector).into_iter().chain(listed).collect()
    }
}

fn errors(review: &Value, spec: &Spec, own: bool, local: bool) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let in_go = |path: &Path| json!({"Path": path.path, "Verb": path.verb});
    match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.push(Invalid::invalid("spec.nonResourceAttributes", in_go(path), why));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(Invalid::invalid("spec.resourceAttributes", Value::Null, why));
        }
        _ => {}
    }
    if !own && spec.user.is_empty() && spec.groups.is_empty() {
        errors.push(Invalid::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    let mut bare = review["metadata"].clone();
    if let (true, Some(fields)) = (local, bare.as_object_mut()) {
        fields.remove("namespace");
    }
    if bare.as_object().is_some_and(|fields| !fields.is_empty()) {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(Invalid::invalid("metadata", review["metadata"].clone(), why));
    }
    if local {
        let within = metadata::text(review, "namespace");
        let asked = spec.resource_attributes.as_ref().filter(|asked| asked.namespace != within);
        errors.extend(asked.map(|asked| {
            let (field, value) = ("spec.resourceAttributes.namespace", asked.namespace.as_str());
            Invalid::invalid(field, value, "must match metadata.namespace")
        }));
        errors.extend(spec.non_resource_attributes.as_ref().map(|path| {
            Invalid::invalid("spec.nonResourceAttributes", in_go(path), "disallowed on this kind of request")
        }));
    }
    errors
}

/// Everything that the caller may do in a namespace, as far as rules can tell.
pub fn rules(core: &Core, caller: &User, review: &Value) -> Result<Value, Status> {
    let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let authorizer = core.access.authorizer();
    let (mut rules, mut errors, mut incomplete) = (Vec::new(), Vec::new(), false);
    for mode in authorizer.modes() {
        match mode {
            Mode::AlwaysDeny => {}
            Mode::AlwaysAllow => rules.extend(Rule::everything()),
            Mode::Node if caller.node().is_some() => {
                incomplete = true;
                errors.push("node authorizer does not support user rule resolution".to_owned());
            }
            Mode::Node => {}
            Mode::Rbac => {
                let granted = authorizer.rbac().granted(caller, namespace);
                errors.extend(Some(granted.error()).filter(|error| !error.is_empty()));
                rules.extend(granted.rules);
            }
        }
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        if !rule.resources.is_empty() {
            let Rule { verbs, api_groups, resources: of, resource_names, .. } = &rule;
            let mut shown = json!({"verbs": verbs, "apiGroups": api_groups, "resources": of});
            if !resource_names.is_empty() {
                shown["resourceNames"] = json!(resource_names);
            }
            resources.push(shown);
        }
        if !rule.non_resource_urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
        }
    }
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": incomplete});
    if !errors.is_empty() {
        status["evaluationError"] = errors.join(", ").into();
    }
    Ok(json!({
        "kind": review["kind"], "apiVersion": review["apiVersion"], "metadata": {}, "spec": {}, "status": status,
    }))
}
