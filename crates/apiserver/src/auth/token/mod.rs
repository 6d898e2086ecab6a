//! Service-account tokens: signed, bound to an object, expiring.
//!
//! `keys` and `jwt` are about signatures, `claims` about what a token says, `request` is the subresource that hands
//! them out. A token is checked against the store each time it is shown: it ends with its account, and with what it is
//! bound to.

mod claims;
mod documents;
mod jwt;
mod keys;
mod request;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_api::ObjectKey;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::common;
use super::authenticate::{Accepted, TokenRefusal};
use crate::store::Store;
use claims::{Claims, Found, Objects};
use jwt::Unverified;

pub use documents::document;
pub use keys::{KeyError, PublicKey, SigningKey, read_public};
pub use request::{applies, run};

/// Tokens whose signature is remembered to be good.
const VERIFIED_MAX: usize = 1024;

/// `--service-account-*` and `--api-audiences`.
pub struct TokenSettings {
    /// The first one signs; tokens of all are accepted.
    pub issuers: Vec<String>,
    /// Empty: the first issuer.
    pub audiences: Vec<String>,
    pub signing: SigningKey,
    /// Keys beside the signing one.
    pub verifying: Vec<PublicKey>,
    /// The longest that a token may be asked for.
    pub max_expiration_seconds: Option<i64>,
    /// Whether the tokens of pods live on for a year, as upstream lets them, for clients that never read them again.
    pub extend_expiration: bool,
    /// Where others find the public keys.
    pub jwks_uri: String,
}

impl TokenSettings {
    /// For a server whose tokens end with it: nobody keeps the key.
    pub fn ephemeral(issuer: &str) -> Result<Self, KeyError> {
        Ok(Self {
            issuers: vec![issuer.into()],
            audiences: Vec::new(),
            signing: SigningKey::ephemeral()?,
            verifying: Vec::new(),
            max_expiration_seconds: None,
            extend_expiration: true,
            jwks_uri: String::new(),
        })
    }
}

pub struct Tokens {
    settings: TokenSettings,
    keys: Vec<PublicKey>,
    store: Store,
    /// By digest. Only signatures: whether a token still holds is looked at each time.
    verified: Mutex<HashMap<Vec<u8>, Arc<Claims>>>,
}

impl Tokens {
    pub fn new(mut settings: TokenSettings, store: &Store) -> Self {
        if settings.audiences.is_empty() {
            settings.audiences = settings.issuers.first().cloned().into_iter().collect();
        }
        let mut keys = std::mem::take(&mut settings.verifying);
        if !keys.contains(settings.signing.public()) {
            keys.insert(0, settings.signing.public().clone());
        }
        Self { settings, keys, store: store.clone(), verified: Mutex::default() }
    }

    pub fn audiences(&self) -> &[String] {
        &self.settings.audiences
    }

    /// Whose a token is. No audiences are those of this server.
    pub fn review(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Accepted, TokenRefusal> {
        let claims = self.claims(token)?;
        let wanted = if audiences.is_empty() { self.audiences() } else { audiences };
        let good = common(&claims.aud, wanted);
        if good.is_empty() {
            let (have, want) = (super::rbac::quoted(&claims.aud), super::rbac::quoted(wanted));
            let why = format!("token audiences {have} is invalid for the target audiences {want}");
            return Err(TokenRefusal::Invalid(why));
        }
        match claims.refusal(&InStore(&self.store), now) {
            Some(why) => Err(TokenRefusal::Invalid(why)),
            None => Ok(Accepted { user: Arc::new(claims.user()), audiences: good }),
        }
    }

    /// What a token says, once its signature and issuer are known to be ours.
    fn claims(&self, token: &str) -> Result<Arc<Claims>, TokenRefusal> {
        let key = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        let known = |map: &HashMap<Vec<u8>, Arc<Claims>>| map.get(&key).cloned();
        if let Some(claims) = known(&self.verified.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(claims);
        }
        let unverified = Unverified::parse(token).ok_or(TokenRefusal::Unknown)?;
        // Somebody else's tokens are not ours to judge.
        if !self.settings.issuers.contains(&unverified.claims.iss) {
            return Err(TokenRefusal::Unknown);
        }
        let claims = unverified.verified(&self.keys);
        let claims = Arc::new(claims.map_err(|error| TokenRefusal::Invalid(error.to_string()))?);
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert(key, claims.clone());
        Ok(claims)
    }

    /// `/.well-known/openid-configuration`.
    pub fn configuration(&self) -> Value {
        let mut algorithms: Vec<&str> = self.keys.iter().map(|key| key.algorithm.name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": self.settings.issuers.first(),
            "jwks_uri": self.settings.jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    /// `/openid/v1/jwks`.
    pub fn key_set(&self) -> Value {
        json!({"keys": self.keys.iter().map(PublicKey::to_jwk).collect::<Vec<_>>()})
    }
}

struct InStore<'a>(&'a Store);

impl Objects for InStore<'_> {
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            uid: String,
            deletion_timestamp: Option<Timestamp>,
        }
        let stored = self.0.get(plural, &ObjectKey::new(namespace, name))?;
        let Object { metadata } = serde_json::from_slice(&stored.json).ok()?;
        Some(Found { uid: metadata.uid, deleted: metadata.deletion_timestamp })
    }
}

#[cfg(test)]
mod tests;
