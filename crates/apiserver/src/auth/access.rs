//! The gate that every request passes: who is it, do they act as somebody else, may they.

use std::sync::{Arc, LazyLock};

use http::HeaderMap;
use http::request::Parts;
use jiff::Timestamp;

use super::attributes::Attributes;
use super::audit::Audit;
use super::authenticate::{Accepted, Authenticator, TokenRefusal};
use super::authorize::{Authorizer, Mode};
use super::impersonate::impersonated;
use super::static_tokens::StaticTokens;
use super::token::{TokenSettings, Tokens};
use super::user::User;
use crate::limits::{ConnectionOwner, LimitSettings, too_many_requests};
use crate::server::Peer;
use crate::status::Status;
use crate::store::Store;

/// How a server recognises people and what it lets them do.
pub struct Settings {
    /// Whether somebody who shows nothing comes in as `system:anonymous`.
    pub anonymous: bool,
    pub modes: Vec<Mode>,
    pub static_tokens: StaticTokens,
    /// Without these there are no service-account tokens.
    pub tokens: Option<TokenSettings>,
    pub audit: Option<Audit>,
    /// How much it does at a time.
    pub limits: LimitSettings,
}

impl Default for Settings {
    fn default() -> Self {
        let modes = vec![Mode::Node, Mode::Rbac];
        Self {
            anonymous: true,
            modes,
            static_tokens: StaticTokens::default(),
            tokens: None,
            audit: None,
            limits: LimitSettings::default(),
        }
    }
}

pub struct Access {
    authenticator: Authenticator,
    authorizer: Authorizer,
    tokens: Option<Tokens>,
    audit: Option<Audit>,
}

/// Somebody who may go on.
pub struct Admitted {
    /// On whose behalf.
    pub user: Arc<User>,
    /// Who really sent the request, if they act as somebody else.
    pub caller: Option<Arc<User>>,
    pub reason: String,
}

/// What is known of a request that was refused.
pub struct Refused {
    pub status: Status,
    pub user: Option<Arc<User>>,
    pub caller: Option<Arc<User>>,
    pub reason: String,
}

impl Access {
    pub fn new(settings: Settings, store: &Store) -> Self {
        let Settings { anonymous, modes, static_tokens, tokens, audit, limits: _ } = settings;
        Self {
            authenticator: Authenticator { anonymous, static_tokens },
            authorizer: Authorizer::new(modes, store),
            tokens: tokens.map(|settings| Tokens::new(settings, store)),
            audit,
        }
    }

    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    pub fn audit(&self) -> Option<&Audit> {
        self.audit.as_ref()
    }

    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Lets a request in or says why not.
    pub fn admit(&self, head: &Parts, now: Timestamp) -> Result<Admitted, Refused> {
        let nobody = |status| Refused { status, user: None, caller: None, reason: String::new() };
        let caller = self.caller(head, now).map_err(nobody)?;
        let asked = || Attributes::of(&head.method, head.uri.path(), head.uri.query().unwrap_or_default());
        let refused = |status, user: Option<&Arc<User>>, caller: Option<&Arc<User>>, reason| {
            let (user, caller) = (user.cloned(), caller.cloned());
            Refused { status, user, caller, reason }
        };
        let other = match impersonates(&head.headers) {
            false => None,
            true => impersonated(&self.authorizer, &caller, &head.headers, asked)
                .map_err(|status| refused(status, Some(&caller), None, String::new()))?,
        };
        let (user, caller) = match other {
            None => (caller, None),
            Some(user) => (Arc::new(user), Some(caller)),
        };
        if user.is_master() {
            return Ok(Admitted { user, caller, reason: String::new() });
        }
        let asked = asked();
        let decision = self.authorizer.decide(&user, &asked);
        if decision.allowed {
            return Ok(Admitted { user, caller, reason: decision.reason });
        }
        let status = asked.forbidden(&user, &decision.reason);
        Err(refused(status, Some(&user), caller.as_ref(), decision.reason))
    }

    fn caller(&self, head: &Parts, now: Timestamp) -> Result<Arc<User>, Status> {
        static SERVER: LazyLock<Arc<User>> = LazyLock::new(|| Arc::new(User::server()));
        if let Some(user) = head.extensions.get::<User>() {
            return Ok(Arc::new(user.clone()));
        }
        let Some(peer) = head.extensions.get::<Peer>() else { return Ok(SERVER.clone()) };
        let review = |token: &str| self.review(token, &[], now);
        let user = self.authenticator.user(&peer.identity, &head.headers, now, review)?;
        // A client with a token is only known by its requests.
        let owner = head.extensions.get::<ConnectionOwner>().filter(|_| !user.is_anonymous());
        match owner.is_none_or(|owner| owner.is_known(&user)) {
            true => Ok(user),
            false => Err(too_many_requests()),
        }
    }

    /// Whose a token is. No audiences are those of this server.
    pub fn review(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Accepted, TokenRefusal> {
        if let Some(user) = self.authenticator.static_tokens.user(token) {
            // Whoever wrote it down meant this server.
            let own = self.tokens.as_ref().map(Tokens::audiences).unwrap_or_default();
            let good = if audiences.is_empty() { own.to_vec() } else { common(own, audiences) };
            if good.is_empty() && !own.is_empty() {
                return Err(TokenRefusal::Unknown);
            }
            return Ok(Accepted { user: user.clone(), audiences: good });
        }
        match &self.tokens {
            Some(tokens) => tokens.review(token, audiences, now),
            None => Err(TokenRefusal::Unknown),
        }
    }
}

/// Those of the first that are among the second.
pub fn common(own: &[String], wanted: &[String]) -> Vec<String> {
    own.iter().filter(|audience| wanted.contains(audience)).cloned().collect()
}

fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}
