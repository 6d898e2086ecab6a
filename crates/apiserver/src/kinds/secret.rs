//! Secret: bytes by key. No text here ever repeats a value.

use bowline_api::{Meta, Secret, keys};
use k8s_openapi::ByteString;
use serde_json::{Map, Value};

use super::check::same::{immutable, same};
use super::check::{self, names};
use super::configmap::{DATA_MAX, FROZEN};
use super::{Column, Names, Rules, age, column};
use crate::field::Invalid;

const OPAQUE: &str = "Opaque";
const REDACTED: &str = "<secret contents redacted>";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Type", "What the secret is for."),
    column::text("Data", "Number of keys."),
    column::AGE,
];

pub struct SecretRules;

impl Rules for SecretRules {
    type Object = Secret;
    const NAMES: Names = Names { plural: "secrets", singular: "secret", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const FIELD_LABELS: &'static [&'static str] = &["type"];

    fn default_fields(secret: &mut Secret) {
        if secret.type_.as_deref().unwrap_or_default().is_empty() {
            secret.type_ = Some(OPAQUE.into());
        }
        // At once, so that whoever writes text owns the data it becomes.
        merge_text(secret);
    }

    fn prepare_create(secret: &mut Secret, _now: jiff::Timestamp) {
        merge_text(secret);
    }

    fn prepare_update(new: &mut Secret, _old: &Secret) {
        merge_text(new);
    }

    fn validate(secret: &Secret) -> Vec<Invalid> {
        let data = || secret.data.iter().flatten();
        let mut errors: Vec<Invalid> =
            data().flat_map(|(key, _)| names::config_key(&format!("data[{key}]"), key)).collect();
        if data().map(|(_, value)| value.0.len()).sum::<usize>() > DATA_MAX {
            errors.push(check::too_long("data", DATA_MAX));
        }
        errors.extend(type_errors(secret));
        errors
    }

    fn validate_update(new: &Secret, old: &Secret) -> Vec<Invalid> {
        let mut errors: Vec<Invalid> = immutable("type", &new.type_, &old.type_).into_iter().collect();
        if old.immutable == Some(true) {
            if new.immutable != Some(true) {
                errors.push(Invalid::forbidden("immutable", FROZEN));
            }
            if !same(&new.data, &old.data) {
                errors.push(Invalid::forbidden("data", FROZEN));
            }
        }
        errors
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(secret: &Secret, now: jiff::Timestamp) -> Vec<Value> {
        let keys = secret.data.as_ref().map_or(0, |data| data.len());
        let type_ = secret.type_.as_deref().unwrap_or_default();
        vec![secret.name().into(), type_.into(), keys.into(), age::age(&secret.metadata, now).into()]
    }

    fn field_labels(secret: &Secret) -> Vec<(&'static str, String)> {
        vec![("type", secret.type_.clone().unwrap_or_default())]
    }
}

/// Plain text is for writing only: it wins over the same key in `data` and is never stored.
fn merge_text(secret: &mut Secret) {
    for (key, text) in secret.string_data.take().into_iter().flatten() {
        secret.data.get_or_insert_default().insert(key, ByteString(text.into_bytes()));
    }
}

/// Keys that each well-known type must have.
fn type_errors(secret: &Secret) -> Vec<Invalid> {
    let value = |key: &str| secret.data.as_ref().and_then(|data| data.get(key));
    let missing = |key: &str| Invalid::required(format!("data[{key}]"), "");
    let absent = |keys: &[&str]| -> Vec<Invalid> {
        keys.iter().filter(|key| value(key).is_none()).map(|key| missing(key)).collect()
    };
    match secret.type_.as_deref().unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let account = secret.annotation(keys::SERVICE_ACCOUNT_NAME).unwrap_or_default();
            let at = format!("metadata.annotations[{}]", keys::SERVICE_ACCOUNT_NAME);
            account.is_empty().then(|| Invalid::required(at, "")).into_iter().collect()
        }
        "kubernetes.io/dockercfg" => docker_errors(value(".dockercfg"), ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker_errors(value(".dockerconfigjson"), ".dockerconfigjson"),
        "kubernetes.io/basic-auth" => {
            // One of the two is enough.
            let missing = absent(&["username", "password"]);
            if missing.len() == 2 { missing } else { Vec::new() }
        }
        "kubernetes.io/ssh-auth" => {
            let empty = value("ssh-privatekey").is_none_or(|key| key.0.is_empty());
            empty.then(|| missing("ssh-privatekey")).into_iter().collect()
        }
        "kubernetes.io/tls" => absent(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

fn docker_errors(value: Option<&ByteString>, key: &str) -> Vec<Invalid> {
    let at = format!("data[{key}]");
    let Some(ByteString(bytes)) = value else { return vec![Invalid::required(at, "")] };
    match serde_json::from_slice::<Map<String, Value>>(bytes) {
        Ok(_) => Vec::new(),
        // The parser's own text may quote the input, so it stays out.
        Err(_) => vec![Invalid::invalid(at, REDACTED, "must be a JSON object")],
    }
}
