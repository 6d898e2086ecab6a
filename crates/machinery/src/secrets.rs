//! Secrets, read when a call needs them and never kept.

use std::collections::BTreeMap;

use bowline_api::Secret;

use crate::effect::{EffectError, Effects};

/// The entries of a secret as a driver gets them. A missing secret is an error, an empty one is not.
pub async fn read(
    effects: &Effects,
    namespace: &str,
    name: &str,
) -> Result<BTreeMap<String, String>, EffectError> {
    let secret = effects.get_live::<Secret>(namespace, name).await?;
    let secret = secret.ok_or_else(|| {
        EffectError::refused(format!("secret \"{name}\" in namespace \"{namespace}\" not found"))
    })?;
    let entry = |(key, value): (String, k8s_openapi::ByteString)| match String::from_utf8(value.0) {
        Ok(text) => Ok((key, text)),
        // The value itself must not reach the message (SEC-1).
        Err(_) => {
            Err(EffectError::refused(format!("secret {namespace}/{name}: value of `{key}` is not UTF-8")))
        }
    };
    secret.data.unwrap_or_default().into_iter().map(entry).collect()
}
