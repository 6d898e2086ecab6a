//! What a request asks for, in the words that rules are written in.

use http::Method;

use super::user::User;
use crate::http::path::{Divided, plain};
use crate::http::query::{Query, decoded};
use crate::status::{Resource, Status};

/// One thing that somebody wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attributes {
    Resource(ResourceAttributes),
    /// A path that is no resource; the verb is the method in lower case.
    Path {
        verb: String,
        path: String,
    },
}

/// Something about an object, or about all objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceAttributes {
    pub verb: String,
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    /// Empty if it is about the whole cluster.
    pub namespace: String,
    /// Empty if it is about all objects.
    pub name: String,
    /// Fields that a list or watch is limited to, with their values.
    pub fields: Vec<(String, String)>,
}

impl Attributes {
    /// Reads a path as upstream's authorizers do, whether or not anything is served there.
    pub fn of(method: &Method, path: &str, query: &str) -> Self {
        let whole = plain(path);
        let all: Vec<&str> = whole.split('/').collect();
        let Some(Divided { group, version, verb, namespace, rest, .. }) = Divided::of(&all) else {
            let verb = method.as_str().to_ascii_lowercase();
            return Self::Path { verb, path: decoded(path) };
        };
        let verb = verb.unwrap_or_else(|| verb_of(method));
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let attributes = ResourceAttributes {
            verb: verb.into(),
            group: group.into(),
            version: version.into(),
            resource: part(0),
            subresource: if verb == "proxy" { String::new() } else { part(2) },
            namespace: namespace.into(),
            name: part(1),
            fields: Vec::new(),
        };
        Self::Resource(attributes.of_many(&Query::parse(query)))
    }

    pub fn verb(&self) -> &str {
        match self {
            Self::Resource(resource) => &resource.verb,
            Self::Path { verb, .. } => verb,
        }
    }

    /// The same with another verb.
    #[must_use]
    pub fn with_verb(mut self, new: String) -> Self {
        match &mut self {
            Self::Resource(resource) => resource.verb = new,
            Self::Path { verb, .. } => *verb = new,
        }
        self
    }

    /// The answer to somebody who may not.
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        let (resource, name) = match self {
            Self::Resource(asked) => {
                (Resource { group: &asked.group, plural: &asked.resource }, asked.name.as_str())
            }
            Self::Path { .. } => (Resource { group: "", plural: "" }, ""),
        };
        let mut why = escaped(&self.cannot(&user.name));
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        Status::forbidden(resource, name, &why)
    }

    fn cannot(&self, user: &str) -> String {
        let asked = match self {
            Self::Path { verb, path } => return format!("User {user:?} cannot {verb} path {path:?}"),
            Self::Resource(asked) => asked,
        };
        let scope = match asked.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let (verb, resource, group) = (&asked.verb, asked.combined(), &asked.group);
        format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
    }
}

impl ResourceAttributes {
    /// `resource` or `resource/subresource`.
    pub fn combined(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }

    /// Without a name, reads are lists or watches and a delete is one of many. A list that is limited to one name is
    /// about that object.
    fn of_many(mut self, query: &Query) -> Self {
        if self.name.is_empty() && self.verb == "get" {
            self.verb = if query.flag("watch") { "watch" } else { "list" }.into();
            self.fields = equalities(query.get("fieldSelector"));
            let named = self.fields.iter().find(|(field, _)| field == "metadata.name");
            let plain =
                named.filter(|(_, name)| !matches!(name.as_str(), "." | "..") && !name.contains(['/', '%']));
            self.name = plain.map(|(_, name)| name.clone()).unwrap_or_default();
        } else if self.name.is_empty() && self.verb == "delete" {
            self.verb = "deletecollection".into();
            self.fields = equalities(query.get("fieldSelector"));
        }
        self
    }
}

fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// The parts of a field selector that demand one value.
pub fn equalities(selector: &str) -> Vec<(String, String)> {
    let parts = selector.split(',').filter(|part| !part.contains("!="));
    let pairs = parts.filter_map(|part| part.split_once("==").or_else(|| part.split_once('=')));
    pairs.map(|(field, value)| (field.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Nothing in an answer may look like HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
