//! Who sends a request: a certificate, a token, or nobody in particular.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

use super::certificate::Holder;
use super::static_tokens::StaticTokens;
use super::user::User;
use crate::status::Status;

/// What the other end of a connection showed when it was opened.
#[derive(Debug, Clone, Default)]
pub enum Identity {
    #[default]
    Nobody,
    /// A certificate that no authority we trust has signed, or that is out of date.
    Untrusted,
    Certificate(Arc<Holder>),
}

/// Why a token is not accepted, for those who review tokens; a client only hears that it was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRefusal {
    /// It is nothing that anybody here knows how to read.
    Unknown,
    Invalid(String),
}

/// A token that was accepted, and which of the audiences asked for it is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub user: Arc<User>,
    pub audiences: Vec<String>,
}

pub struct Authenticator {
    pub anonymous: bool,
    pub static_tokens: StaticTokens,
}

impl Authenticator {
    /// A certificate counts before a token; what is shown and wrong is refused unless the other is right.
    pub fn user(
        &self,
        identity: &Identity,
        headers: &HeaderMap,
        now: Timestamp,
        review: impl FnOnce(&str) -> Result<Accepted, TokenRefusal>,
    ) -> Result<Arc<User>, Status> {
        let mut refused = false;
        match identity {
            Identity::Certificate(holder) if holder.until > now => return Ok(holder.user.clone()),
            Identity::Certificate(_) | Identity::Untrusted => refused = true,
            Identity::Nobody => {}
        }
        if let Some(token) = bearer(headers) {
            match review(token) {
                Ok(accepted) => return Ok(accepted.user),
                Err(_) => refused = true,
            }
        }
        if refused || !self.anonymous {
            return Err(Status::unauthorized());
        }
        Ok(Arc::new(User::anonymous()))
    }
}

/// The token in the usual header; other schemes are nobody's business here.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
