//! Who a client is and what it may do, asked of the API server: TokenReview and SubjectAccessReview, as upstream's kubelet
//! and kube-* programs delegate both.
//!
//! Answers are kept for a short time; errors are not, so that an API server that comes back is asked at once.

mod answers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_host::Host;
use http::header::AUTHORIZATION;
use http::request::Parts;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::access::{Access, Denied};
use crate::client::one_line;
use answers::Answers;

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// The user of a client certificate, which TLS has verified: an extension of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateUser(pub Arc<User>);

/// The client has shown a certificate that is not trusted: an extension of the request, which then needs other credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntrustedCertificate;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    fn authenticated(mut self) -> Self {
        if ![AUTHENTICATED, UNAUTHENTICATED].iter().any(|group| self.groups.iter().any(|own| own == group)) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attributes {
    /// A path that is no resource, such as `/metrics`.
    Path { verb: String, path: String },
    /// A part of a node.
    Node { verb: String, subresource: String, name: String },
}

/// The path itself, with the method as its verb: what kube-controller-manager and kube-scheduler serve.
pub fn path_attributes(request: &Parts) -> Vec<Attributes> {
    let verb = request.method.as_str().to_ascii_lowercase();
    vec![Attributes::Path { verb, path: request.uri.path().to_owned() }]
}

/// How long answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub tokens: Duration,
    pub allowed: Duration,
    pub denied: Duration,
}

type AttributesOf = Box<dyn Fn(&Parts) -> Vec<Attributes> + Send + Sync>;

/// Asks the API server about each client.
pub struct Reviewer {
    host: Host,
    kept: Kept,
    anonymous: bool,
    tokens: Option<Client>,
    rights: Option<Client>,
    attributes: AttributesOf,
    users: Answers<String, Option<Arc<User>>>,
    allowed: Answers<(Arc<User>, Attributes), bool>,
}

impl Reviewer {
    /// Lets in users of certificates; the other methods add to that. Each entry of `attributes` is
    /// asked about in turn, and one that is allowed is enough.
    pub fn new(
        host: &Host,
        kept: Kept,
        attributes: impl Fn(&Parts) -> Vec<Attributes> + Send + Sync + 'static,
    ) -> Self {
        Self {
            host: host.clone(),
            kept,
            anonymous: false,
            tokens: None,
            rights: None,
            attributes: Box::new(attributes),
            users: Answers::default(),
            allowed: Answers::default(),
        }
    }

    /// Requests without credentials are made by `system:anonymous`; they are refused otherwise.
    pub fn anonymous(self, anonymous: bool) -> Self {
        Self { anonymous, ..self }
    }

    /// Bearer tokens are reviewed; they are not looked at otherwise.
    pub fn tokens(self, client: Option<Client>) -> Self {
        Self { tokens: client, ..self }
    }

    /// What a user may do is reviewed; every user may do everything otherwise.
    pub fn rights(self, client: Option<Client>) -> Self {
        Self { rights: client, ..self }
    }

    async fn user(&self, request: &Parts) -> Result<Arc<User>, Denied> {
        if let Some(CertificateUser(user)) = request.extensions.get() {
            return Ok(user.clone());
        }
        match (bearer(request), &self.tokens) {
            (Some(token), Some(client)) => {
                // A wrong token is refused, also where requests without one are anonymous.
                self.user_of_token(client, token).await?.ok_or(Denied::Unauthorized)
            }
            _ if self.anonymous && request.extensions.get::<UntrustedCertificate>().is_none() => {
                Ok(Arc::new(User::anonymous()))
            }
            _ => Err(Denied::Unauthorized),
        }
    }

    async fn user_of_token(&self, client: &Client, token: &str) -> Result<Option<Arc<User>>, Denied> {
        let now = self.host.uptime.uptime();
        if let Some(user) = self.users.get(token, now) {
            return Ok(user);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews = Api::<TokenReview>::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await.map_err(|error| {
            tracing::warn!(error = one_line(&error), "review a client's token");
            Denied::Unauthorized
        })?;
        let user = token_user(answer.status.unwrap_or_default()).map(Arc::new);
        self.users.keep(token.to_owned(), user.clone(), now, self.kept.tokens);
        Ok(user)
    }

    async fn may(&self, client: &Client, user: &Arc<User>, asked: Attributes) -> Result<bool, Denied> {
        let now = self.host.uptime.uptime();
        let question = (user.clone(), asked);
        if let Some(allowed) = self.allowed.get(&question, now) {
            return Ok(allowed);
        }
        let review = SubjectAccessReview { spec: access_spec(user, &question.1), ..Default::default() };
        let reviews = Api::<SubjectAccessReview>::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| Denied::Unknown(one_line(&error)))?;
        let allowed = answer.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        let kept = if allowed { self.kept.allowed } else { self.kept.denied };
        self.allowed.keep(question, allowed, now, kept);
        Ok(allowed)
    }
}

#[async_trait]
impl Access for Reviewer {
    async fn allow(&self, request: &Parts) -> Result<(), Denied> {
        let user = self.user(request).await?;
        let Some(client) = &self.rights else { return Ok(()) };
        for asked in (self.attributes)(request) {
            if self.may(client, &user, asked).await? {
                return Ok(());
            }
        }
        Err(Denied::Forbidden { user: user.name.clone() })
    }
}

/// `Authorization: Bearer TOKEN`.
fn bearer(request: &Parts) -> Option<&str> {
    let header = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

fn token_user(status: TokenReviewStatus) -> Option<User> {
    let user = status.user.filter(|_| status.authenticated == Some(true))?;
    let user = User {
        name: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    };
    Some(user.authenticated())
}

fn access_spec(user: &User, asked: &Attributes) -> SubjectAccessReviewSpec {
    let (node, path) = match asked {
        Attributes::Path { verb, path } => {
            let path = NonResourceAttributes { path: Some(path.clone()), verb: Some(verb.clone()) };
            (None, Some(path))
        }
        Attributes::Node { verb, subresource, name } => {
            let node = ResourceAttributes {
                verb: Some(verb.clone()),
                version: Some("v1".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some(subresource.clone()),
                name: Some(name.clone()),
                ..ResourceAttributes::default()
            };
            (Some(node), None)
        }
    };
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        resource_attributes: node,
        non_resource_attributes: path,
    }
}
