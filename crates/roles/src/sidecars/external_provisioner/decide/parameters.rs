//! Class parameters: what is ours, what is the driver's, and which secrets they name.

use std::collections::BTreeMap;

use bowline_api::{keys, name};
use k8s_openapi::api::core::v1::SecretReference;

use super::super::model::Secrets;
use super::template::expand;

type Parameters = BTreeMap<String, String>;

/// Before the prefix existed; passed on to the driver, too.
const FSTYPE_OLD: &str = "fstype";

/// What a secret is for, and the older keys for its name and namespace.
struct Purpose {
    name: &'static str,
    old: Option<(&'static str, &'static str)>,
}

const PROVISIONER: Purpose =
    Purpose { name: "provisioner", old: Some(("csiProvisionerSecretName", "csiProvisionerSecretNamespace")) };
const CONTROLLER_PUBLISH: Purpose = Purpose {
    name: "controller-publish",
    old: Some(("csiControllerPublishSecretName", "csiControllerPublishSecretNamespace")),
};
const NODE_STAGE: Purpose =
    Purpose { name: "node-stage", old: Some(("csiNodeStageSecretName", "csiNodeStageSecretNamespace")) };
const NODE_PUBLISH: Purpose = Purpose {
    name: "node-publish",
    old: Some(("csiNodePublishSecretName", "csiNodePublishSecretNamespace")),
};
const CONTROLLER_EXPAND: Purpose = Purpose { name: "controller-expand", old: None };
const NODE_EXPAND: Purpose = Purpose { name: "node-expand", old: None };
const CONTROLLER_MODIFY: Purpose = Purpose { name: "controller-modify", old: None };

const PURPOSES: [&Purpose; 7] = [
    &PROVISIONER,
    &CONTROLLER_PUBLISH,
    &NODE_STAGE,
    &NODE_PUBLISH,
    &CONTROLLER_EXPAND,
    &NODE_EXPAND,
    &CONTROLLER_MODIFY,
];

/// What tokens in secret names stand for.
pub struct Names<'a> {
    pub volume: &'a str,
    pub claim_namespace: &'a str,
    pub claim_name: &'a str,
    /// Absent on deletion, when the claim is gone.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

/// The filesystem that a class asks for.
pub fn fs_type(given: &Parameters) -> Result<Option<String>, String> {
    let named = |(key, _): &(&String, &String)| {
        key.eq_ignore_ascii_case(FSTYPE_OLD) || key.as_str() == keys::FSTYPE_PARAMETER
    };
    let mut found = given.iter().filter(named).map(|(_, value)| value.clone());
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(format!(
            "fstype specified in parameters with both \"{FSTYPE_OLD}\" and \"{}\" keys",
            keys::FSTYPE_PARAMETER
        )),
    }
}

/// What the driver is told: everything without our prefix. An unknown key with it is an error, not a guess.
pub fn for_driver(given: &Parameters) -> Result<Parameters, String> {
    let known = known_keys();
    let unknown =
        given.keys().find(|key| key.starts_with(keys::CLASS_PARAMETER_PREFIX) && !known.contains(key));
    if let Some(key) = unknown {
        return Err(format!(
            "found unknown parameter key \"{key}\" with reserved namespace {}",
            keys::CLASS_PARAMETER_PREFIX
        ));
    }
    let passed = given.iter().filter(|(key, _)| !key.starts_with(keys::CLASS_PARAMETER_PREFIX));
    Ok(passed.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn known_keys() -> Vec<String> {
    let mut known = vec![keys::FSTYPE_PARAMETER.to_owned()];
    for purpose in ["secret".to_owned()].into_iter().chain(PURPOSES.map(|p| format!("{}-secret", p.name))) {
        known.push(format!("{}{purpose}-name", keys::CLASS_PARAMETER_PREFIX));
        known.push(format!("{}{purpose}-namespace", keys::CLASS_PARAMETER_PREFIX));
    }
    known
}

/// The secrets that a class names, for every purpose.
pub fn secrets(given: &Parameters, names: &Names<'_>) -> Result<Secrets, String> {
    Ok(Secrets {
        provisioner: secret(given, &PROVISIONER, names)?,
        controller_publish: secret(given, &CONTROLLER_PUBLISH, names)?,
        node_stage: secret(given, &NODE_STAGE, names)?,
        node_publish: secret(given, &NODE_PUBLISH, names)?,
        controller_expand: secret(given, &CONTROLLER_EXPAND, names)?,
        node_expand: secret(given, &NODE_EXPAND, names)?,
        controller_modify: secret(given, &CONTROLLER_MODIFY, names)?,
    })
}

/// The secret for CreateVolume and DeleteVolume alone.
pub fn provisioner_secret(given: &Parameters, names: &Names<'_>) -> Result<Option<SecretReference>, String> {
    secret(given, &PROVISIONER, names)
}

fn secret(
    given: &Parameters,
    purpose: &Purpose,
    names: &Names<'_>,
) -> Result<Option<SecretReference>, String> {
    let prefix = keys::CLASS_PARAMETER_PREFIX;
    let own = |part: &str| format!("{prefix}{}-secret-{part}", purpose.name);
    let name = template(given, purpose, &own("name"), purpose.old.map(|old| old.0))?;
    let namespace = template(given, purpose, &own("namespace"), purpose.old.map(|old| old.1))?;
    let (name, namespace) = match (name, namespace) {
        (None, None) => {
            let default = |part: &str| given.get(&format!("{prefix}secret-{part}"));
            (default("name"), default("namespace"))
        }
        own => own,
    };
    let (name, namespace) = match (name, namespace) {
        (None, None) => return Ok(None),
        (Some(name), Some(namespace)) if !name.is_empty() && !namespace.is_empty() => (name, namespace),
        _ => {
            return Err(format!(
                "name and namespace of the {} secret must be given together and not be empty",
                purpose.name
            ));
        }
    };
    let namespace =
        resolve(purpose, "namespace", namespace, &name::label_errors, &|token| names.shared(token))?;
    let name = resolve(purpose, "name", name, &name::subdomain_errors, &|token| names.of_claim(token))?;
    Ok(Some(SecretReference { name: Some(name), namespace: Some(namespace) }))
}

/// The text under the key with our prefix, or under the older key; both at once is an error.
fn template<'a>(
    given: &'a Parameters,
    purpose: &Purpose,
    key: &str,
    old: Option<&str>,
) -> Result<Option<&'a String>, String> {
    match (given.get(key), old.and_then(|old| given.get(old))) {
        (Some(_), Some(_)) => {
            Err(format!("{} secrets specified in parameters with both old and new keys", purpose.name))
        }
        (new, old) => Ok(new.or(old)),
    }
}

fn resolve(
    purpose: &Purpose,
    part: &str,
    template: &str,
    errors_of: &dyn Fn(&str) -> Vec<String>,
    value_of: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let what = format!("{} secret {part} template \"{template}\"", purpose.name);
    let text = expand(template, value_of).map_err(|error| format!("error resolving {what}: {error}"))?;
    match errors_of(&text)[..] {
        [] => Ok(text),
        ref errors => Err(format!("{what} resolved to \"{text}\" which is not valid: {}", errors.join(", "))),
    }
}

impl Names<'_> {
    /// Tokens that name and namespace may use.
    fn shared(&self, token: &str) -> Option<String> {
        match token {
            "pv.name" => Some(self.volume.into()),
            "pvc.namespace" => Some(self.claim_namespace.into()),
            _ => None,
        }
    }

    /// Tokens that only the name may use, in addition.
    fn of_claim(&self, token: &str) -> Option<String> {
        let annotation = || {
            let key = token.strip_prefix("pvc.annotations['")?.strip_suffix("']")?;
            self.annotations?.get(key).cloned()
        };
        match token {
            "pvc.name" => Some(self.claim_name.into()),
            _ => self.shared(token).or_else(annotation),
        }
    }
}
