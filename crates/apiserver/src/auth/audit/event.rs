//! One request as `audit.k8s.io/v1` describes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::keys;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::request::Parts;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::auth::access::{Admitted, Refused};
use crate::auth::attributes::Attributes;
use crate::auth::authenticate::Identity;
use crate::auth::review::user_info;
use crate::auth::user::User;
use crate::server::Peer;
use crate::status::Status;

/// Subresources whose answers go on for as long as somebody listens.
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Of a request that ended without an answer.
const CLOSED_EARLY: &str = "Connection closed early";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
}

impl Stage {
    fn word(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
        }
    }
}

/// What is known of a request so far.
pub struct Record {
    id: String,
    received: Timestamp,
    uri: String,
    asked: Attributes,
    address: Option<String>,
    user_agent: String,
    /// What a stranger tried, for the case that it fails.
    attempted: Vec<&'static str>,
    user: Option<Arc<User>>,
    impersonated: Option<Arc<User>>,
    decision: Option<(&'static str, String)>,
    /// What admission has to say.
    annotations: BTreeMap<String, String>,
    status: Option<Value>,
}

impl Record {
    pub fn new(head: &Parts, id: String, received: Timestamp) -> Self {
        let header = |name| head.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let peer = head.extensions.get::<Peer>();
        let scheme =
            header(AUTHORIZATION).and_then(|text| text.trim().split_once(' ')).map(|(scheme, _)| scheme);
        let mut attempted = Vec::new();
        for (name, word) in [("basic", "basic"), ("bearer", "bearer")] {
            attempted.extend(scheme.filter(|scheme| scheme.eq_ignore_ascii_case(name)).map(|_| word));
        }
        if peer.is_some_and(|peer| !matches!(peer.identity, Identity::Nobody)) {
            attempted.push("x509");
        }
        let uri = head.uri.path_and_query().map_or_else(|| head.uri.path().into(), ToString::to_string);
        Self {
            id,
            received,
            uri,
            asked: Attributes::of(&head.method, head.uri.path(), head.uri.query().unwrap_or_default()),
            address: peer.and_then(|peer| peer.address).map(|address| address.ip().to_string()),
            user_agent: header(USER_AGENT).unwrap_or_default().to_owned(),
            attempted,
            user: None,
            impersonated: None,
            decision: None,
            annotations: BTreeMap::new(),
            status: None,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the sender was recognised, if only as anonymous.
    pub fn is_known(&self) -> bool {
        self.user.is_some()
    }

    pub fn is_long_running(&self) -> bool {
        match &self.asked {
            Attributes::Resource(asked) => {
                asked.verb == "watch" || STREAMS.contains(&asked.subresource.as_str())
            }
            Attributes::Path { .. } => false,
        }
    }

    fn people(&mut self, user: Option<&Arc<User>>, caller: Option<&Arc<User>>) {
        self.user = caller.or(user).cloned();
        self.impersonated = caller.and(user).cloned();
    }

    pub fn admitted(&mut self, admitted: &Admitted) {
        self.people(Some(&admitted.user), admitted.caller.as_ref());
        self.decision = Some(("allow", admitted.reason.clone()));
    }

    pub fn refused(&mut self, refused: &Refused) {
        self.people(refused.user.as_ref(), refused.caller.as_ref());
        if refused.status.code == 403 {
            self.decision = Some(("forbid", refused.reason.clone()));
        }
    }

    pub fn annotate(&mut self, annotations: BTreeMap<String, String>) {
        self.annotations.extend(annotations);
    }

    /// A failure is shown as the client saw it.
    pub fn answered(&mut self, code: u16, failure: Option<&Status>) {
        let mut status = match failure {
            Some(failure) if self.is_known() => failure.to_json(),
            _ => json!({}),
        };
        for field in ["kind", "apiVersion"] {
            status.as_object_mut().map(|fields| fields.remove(field));
        }
        if !self.is_known() {
            let tried = match self.attempted.is_empty() {
                true => "Authentication failed, no credentials provided".to_owned(),
                false => format!("Authentication failed, attempted: {}", self.attempted.join(", ")),
            };
            status["message"] = tried.into();
        }
        (status["metadata"], status["code"]) = (json!({}), code.into());
        self.status = Some(status);
    }

    /// Nobody waits for the answer, so nothing is known of it, unless it was already there.
    pub fn left(&mut self) {
        self.status.get_or_insert_with(|| json!({"metadata": {}, "message": CLOSED_EARLY}));
    }

    /// Upstream leaves strangers at the stage that says that they were turned away.
    pub fn last_stage(&self) -> Stage {
        if self.is_known() { Stage::ResponseComplete } else { Stage::ResponseStarted }
    }

    /// One line, as of now.
    pub fn line(&self, stage: Stage, now: Timestamp) -> Vec<u8> {
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.id,
            "stage": stage.word(),
            "requestURI": self.uri,
            "verb": self.asked.verb(),
            "user": self.user.as_ref().map_or_else(|| json!({}), |user| user_info(user)),
            "requestReceivedTimestamp": micros(self.received),
            "stageTimestamp": micros(now),
        });
        let mut add = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                event[field] = value;
            }
        };
        add("impersonatedUser", self.impersonated.as_ref().map(|user| user_info(user)));
        add("sourceIPs", self.address.as_ref().map(|address| json!([address])));
        add("userAgent", Some(self.user_agent.as_str()).filter(|text| !text.is_empty()).map(Into::into));
        add("objectRef", object(&self.asked));
        if stage != Stage::RequestReceived {
            add("responseStatus", self.status.clone());
            let mut annotations = self.annotations.clone();
            if let Some((decision, reason)) = &self.decision {
                annotations.insert(keys::AUDIT_DECISION.into(), (*decision).into());
                annotations.insert(keys::AUDIT_REASON.into(), reason.clone());
            }
            add("annotations", (!annotations.is_empty()).then(|| json!(annotations)));
        }
        let mut line = event.to_string().into_bytes();
        line.push(b'\n');
        line
    }
}

fn object(asked: &Attributes) -> Option<Value> {
    let Attributes::Resource(asked) = asked else { return None };
    let fields = [
        ("resource", &asked.resource),
        ("namespace", &asked.namespace),
        ("name", &asked.name),
        ("apiGroup", &asked.group),
        ("apiVersion", &asked.version),
        ("subresource", &asked.subresource),
    ];
    let shown = fields.into_iter().filter(|(_, text)| !text.is_empty());
    Some(Value::Object(shown.map(|(field, text)| (field.to_owned(), text.as_str().into())).collect()))
}

fn micros(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
