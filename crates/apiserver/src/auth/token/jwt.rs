//! JSON web tokens in their compact form: three parts, the last of which signs the others.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;

use super::claims::Claims;
use super::keys::{PublicKey, SigningKey};

/// Longer than any token of ours, and short enough to be read by anybody's hand.
const LENGTH_MAX: usize = 16 << 10;

/// Why a token cannot be trusted, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

/// A token as it came. Nothing in it is to be believed yet.
pub struct Unverified<'a> {
    header: Header,
    pub claims: Claims,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    /// `None` for what is no token of this kind at all.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > LENGTH_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        Some(Self {
            header: serde_json::from_slice(&decoded(header)?).ok()?,
            claims: serde_json::from_slice(&decoded(claims)?).ok()?,
            signed,
            signature: decoded(signature)?,
        })
    }

    /// The claims, once one of the keys has signed them. The key says by what algorithm; a token that names another,
    /// or none, is not its own.
    pub fn verified(self, keys: &[PublicKey]) -> Result<Claims, Untrusted> {
        let Header { alg, kid } = &self.header;
        let mut candidates = keys.iter().filter(|key| kid.is_empty() || key.id == *kid).peekable();
        if candidates.peek().is_none() {
            return Err(Untrusted::NoKey);
        }
        let signs = |key: &PublicKey| {
            key.algorithm.name() == alg && key.verifies(self.signed.as_bytes(), &self.signature)
        };
        if candidates.any(signs) { Ok(self.claims) } else { Err(Untrusted::Signature) }
    }
}

/// Signs claims. `None` if the machine has no randomness to offer.
pub fn sign(key: &SigningKey, claims: &Claims) -> Option<String> {
    let public = key.public();
    let header = json!({"alg": public.algorithm.name(), "kid": public.id});
    let claims = serde_json::to_vec(claims).ok()?;
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims));
    let signature = key.sign(signed.as_bytes())?;
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
