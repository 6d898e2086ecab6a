//! Decision tables, and whole servers with different users.

mod attributes;
mod certificates;
mod escalation;
mod impersonation;
mod nodes;
mod restriction;
mod roles;
mod rules;
mod spelling;
mod who;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::token::{SigningKey, TokenSettings};
use super::{Identity, Settings, StaticTokens, User};
use crate::registry::Registry;
use crate::server::{Peer, Server};
use crate::store::Store;
use crate::testing::{clock, random};

pub const ISSUER: &str = "https://kubernetes.default.svc";
pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Who sends a request.
#[derive(Clone)]
pub enum Who {
    /// Somebody in this process.
    User(User),
    /// Somebody at the other end of a connection who sends these headers.
    Peer(Identity, HeaderMap),
}

impl Who {
    pub fn named(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self::User(User { name: name.into(), groups, ..User::default() }.authenticated())
    }

    pub fn node(name: &str) -> Self {
        Self::named(&format!("system:node:{name}"), &["system:nodes"])
    }

    pub fn anonymous() -> Self {
        Self::Peer(Identity::Nobody, HeaderMap::new())
    }

    pub fn bearer(token: &str) -> Self {
        Self::anonymous().with("authorization", &format!("Bearer {token}"))
    }

    /// The same with one more header.
    pub fn with(self, name: &'static str, value: &str) -> Self {
        let (identity, mut headers) = match self {
            Self::Peer(identity, headers) => (identity, headers),
            Self::User(_) => panic!("only peers send headers of their own"),
        };
        headers.append(name, value.parse().unwrap());
        Self::Peer(identity, headers)
    }
}

pub fn masters() -> Who {
    Who::named("admin", &["system:masters"])
}

pub fn settings() -> Settings {
    Settings {
        tokens: Some(TokenSettings {
            issuers: vec![ISSUER.into()],
            audiences: Vec::new(),
            signing: SigningKey::ephemeral().unwrap(),
            verifying: Vec::new(),
            max_expiration_seconds: None,
            extend_expiration: true,
            jwks_uri: "https://10.0.0.1/openid/v1/jwks".into(),
        }),
        ..Settings::default()
    }
}

/// A server with all kinds, upstream's roles and these settings.
pub async fn server_with(settings: Settings) -> Server {
    server_on(Store::memory(), settings).await
}

pub async fn server_on(store: Store, settings: Settings) -> Server {
    let mut registry = Registry::new();
    crate::kinds::register::register(&mut registry);
    crate::kinds::register::register_admission(&mut registry);
    let server = Server::guarded(store, registry, clock(), random(), settings);
    server.bootstrap().await.unwrap();
    server
}

pub async fn server() -> Server {
    server_with(settings()).await
}

/// The code and the body of the answer to a request.
pub async fn send(
    server: &Server,
    who: &Who,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let patches = method == Method::PATCH;
    let media = if patches { "application/merge-patch+json" } else { "application/json" };
    let mut request = Request::builder().method(method).uri(path).header("content-type", media);
    match who {
        Who::User(user) => request = request.extension(user.clone()),
        Who::Peer(identity, headers) => {
            request.headers_mut().unwrap().extend(headers.clone());
            let closing = CancellationToken::new();
            request = request.extension(Peer { identity: identity.clone(), address: None, closing });
        }
    }
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let response = server.handle(request.body(Full::new(Bytes::from(body))).unwrap()).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
}

pub async fn get(server: &Server, who: &Who, path: &str) -> (u16, Value) {
    send(server, who, Method::GET, path, None).await
}

pub async fn post(server: &Server, who: &Who, path: &str, body: Value) -> (u16, Value) {
    send(server, who, Method::POST, path, Some(body)).await
}

/// Code and message of a refusal.
pub fn told((code, body): (u16, Value)) -> (u16, String) {
    (code, body["message"].as_str().unwrap_or_default().to_owned())
}

/// What must work; the object that came back.
pub fn done((code, body): (u16, Value)) -> Value {
    assert!(code < 300, "{code} {body}");
    body
}

pub fn role(kind: &str, name: &str, rules: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules,
    })
}

/// `subject` is `User/x`, `Group/x` or `ServiceAccount/x`.
pub fn binding(kind: &str, name: &str, role: &str, subject: &str) -> Value {
    let ((role_kind, role), (kind_of, subject)) =
        (role.split_once('/').unwrap(), subject.split_once('/').unwrap());
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": kind_of, "name": subject, "namespace": if kind_of == "ServiceAccount" { "default" } else { "" }}],
    })
}

pub fn static_tokens(lines: &str) -> StaticTokens {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.csv");
    std::fs::write(&path, lines).unwrap();
    StaticTokens::read(&path).unwrap()
}
