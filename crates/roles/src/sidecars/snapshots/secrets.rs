//! What a snapshot class says in its parameters: which secrets, and what the driver is told.

use std::collections::BTreeMap;

use bowline_api::{keys, name};
use k8s_openapi::api::core::v1::SecretReference;

use crate::sidecars::external_provisioner::expand;

type Parameters = BTreeMap<String, String>;

/// Purposes for which a class may name a secret.
const PURPOSES: [&str; 4] = [
    keys::SNAPSHOTTER_SECRET,
    keys::SNAPSHOTTER_LIST_SECRET,
    keys::GROUP_SNAPSHOTTER_SECRET,
    keys::GROUP_SNAPSHOTTER_GET_SECRET,
];

/// What templates may name. Where only the content is known, as when snapshots are listed, nothing else is.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::sidecars) struct Names<'a> {
    pub content: &'a str,
    /// Namespace and name.
    pub snapshot: Option<(&'a str, &'a str)>,
    /// Tokens begin with `volumegroupsnapshot` instead of `volumesnapshot`.
    pub group: bool,
}

/// The secret for one purpose, which is the prefix of its two parameters.
pub(in crate::sidecars) fn secret(
    parameters: Option<&Parameters>,
    purpose: &str,
    names: &Names<'_>,
) -> Result<Option<SecretReference>, String> {
    let part = |part: &str| parameters.and_then(|all| all.get(&format!("{purpose}{part}")));
    let (name_template, namespace_template) = match (part("name"), part("namespace")) {
        (None, None) => return Ok(None),
        (Some(name), Some(namespace)) if !name.is_empty() && !namespace.is_empty() => (name, namespace),
        _ => {
            return Err(format!(
                "either name and namespace for {}{} secrets specified, Both must be specified",
                keys::CLASS_PARAMETER_PREFIX,
                purpose.trim_start_matches(keys::CLASS_PARAMETER_PREFIX).trim_end_matches("-secret-")
            ));
        }
    };
    let namespace = resolved(namespace_template, |token| names.shared(token))?;
    if !name::label_errors(&namespace).is_empty() {
        return Err(invalid(namespace_template, &namespace, "namespace"));
    }
    let name = resolved(name_template, |token| names.all(token))?;
    if !name::subdomain_errors(&name).is_empty() {
        return Err(invalid(name_template, &name, "secret"));
    }
    Ok(Some(SecretReference { name: Some(name), namespace: Some(namespace) }))
}

fn resolved(template: &str, value_of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    expand(template, value_of).map_err(|error| format!("error resolving value \"{template}\": {error}"))
}

fn invalid(template: &str, text: &str, what: &str) -> String {
    if template == text {
        format!("\"{template}\" is not a valid {what} name")
    } else {
        format!("\"{template}\" resolved to \"{text}\" which is not a valid {what} name")
    }
}

impl Names<'_> {
    fn field<'t>(&self, token: &'t str) -> Option<(&'t str, bool)> {
        let (object, field) = token.split_once('.')?;
        let kind = if self.group { "volumegroupsnapshot" } else { "volumesnapshot" };
        let rest = object.strip_prefix(kind)?;
        matches!(rest, "" | "content").then_some((field, rest == "content"))
    }

    /// Tokens that name and namespace may use.
    fn shared(&self, token: &str) -> Option<String> {
        match self.field(token)? {
            ("name", true) => Some(self.content.to_owned()),
            ("namespace", false) => self.snapshot.map(|(namespace, _)| namespace.to_owned()),
            _ => None,
        }
    }

    /// With the one that only the name may use.
    fn all(&self, token: &str) -> Option<String> {
        match self.field(token)? {
            ("name", false) => self.snapshot.map(|(_, name)| name.to_owned()),
            _ => self.shared(token),
        }
    }
}

/// What the driver is told: everything without our prefix. An unknown key with it is an error, not a guess.
pub(in crate::sidecars) fn for_driver(parameters: Option<&Parameters>) -> Result<Parameters, String> {
    let mut passed = Parameters::new();
    for (key, value) in parameters.into_iter().flatten() {
        let known = || {
            PURPOSES
                .iter()
                .any(|purpose| ["name", "namespace"].iter().any(|part| key == &format!("{purpose}{part}")))
        };
        if !key.starts_with(keys::CLASS_PARAMETER_PREFIX) {
            passed.insert(key.clone(), value.clone());
        } else if !known() {
            return Err(format!(
                "found unknown parameter key \"{key}\" with reserved namespace {}",
                keys::CLASS_PARAMETER_PREFIX
            ));
        }
    }
    Ok(passed)
}
