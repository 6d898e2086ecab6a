//! Secrets, read when a call needs them and never kept.

use std::collections::BTreeMap;

use bowline_api::{Meta, Secret};

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
    entries(secret)
}

/// What is in a secret. Drivers take text, so that anything else is an error and not something similar.
pub fn entries(secret: Secret) -> Result<BTreeMap<String, String>, EffectError> {
    let of = secret.key();
    let entry = |(key, value): (String, k8s_openapi::ByteString)| match String::from_utf8(value.0) {
        Ok(text) => Ok((key, text)),
        // The value itself must not reach the message (SEC-1).
        Err(_) => Err(EffectError::refused(format!("secret {of}: value of `{key}` is not UTF-8"))),
    };
    secret.data.unwrap_or_default().into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    #[test]
    fn only_text_is_handed_on() {
        let secret = |value: &[u8]| {
            let data = [("password".to_owned(), ByteString(value.to_vec()))].into();
            let mut secret = Secret { data: Some(data), ..Secret::default() };
            secret.metadata.namespace = Some("ns".into());
            secret.metadata.name = Some("s".into());
            entries(secret)
        };
        assert_eq!(secret(b"x"), Ok([("password".to_owned(), "x".to_owned())].into()));
        let refused = secret(&[b'x', 0xff]).unwrap_err();
        assert_eq!(refused.message, "secret ns/s: value of `password` is not UTF-8");
    }
}
