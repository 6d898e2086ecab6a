//! What can be done with a kind, and where: the paths of OpenAPI before they are written as v2 or v3.

use super::definitions::{Definitions, list_name};
use super::parameters::{self, Parameter};
use super::subresources;
use crate::kinds::DeleteReply;
use crate::registry::KindInfo;

/// One address and what may be done there.
pub struct PathItem {
    pub path: String,
    pub operations: Vec<Operation>,
}

pub struct Operation {
    /// Lower case, as it stands in the document.
    pub method: &'static str,
    /// Upstream's word in `x-kubernetes-action`; empty where there is none.
    pub action: &'static str,
    pub id: String,
    pub tag: String,
    pub description: String,
    pub parameters: Vec<&'static str>,
    pub request: Request,
    pub media: Media,
    pub answers: Vec<(u16, Answer)>,
    /// Group, version and kind.
    pub kind: Option<[String; 3]>,
}

/// What is sent. Names are those of schemas.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Nothing,
    Object(String),
    /// May be left out.
    Options(String),
    Patch {
        schema: String,
        /// Kinds that clients define have no merge keys.
        strategic: bool,
    },
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    Object { binary: bool },
    Stream { binary: bool },
    Text,
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Schema(String),
    Text,
}

impl Media {
    pub fn types(self) -> &'static [&'static str] {
        const ALL: [&str; 5] = [
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ];
        const PLAIN: [&str; 3] = ["application/json", "application/yaml", "application/json;stream=watch"];
        match self {
            Self::Object { binary: true } => &ALL[..3],
            Self::Stream { binary: true } => &ALL,
            Self::Object { binary: false } => &PLAIN[..2],
            Self::Stream { binary: false } => &PLAIN,
            Self::Text => &["text/plain", "application/json", "application/yaml"],
            Self::Any => &["*/*"],
        }
    }
}

impl PathItem {
    /// Parameters that every operation here has.
    pub fn shared(&self) -> Vec<&'static Parameter> {
        let [first, rest @ ..] = &self.operations[..] else { return Vec::new() };
        let everywhere = |name: &&&str| rest.iter().all(|other| other.parameters.contains(*name));
        described(first.parameters.iter().filter(everywhere))
    }
}

impl Operation {
    /// Parameters that not every operation of the path has.
    pub fn own(&self, shared: &[&Parameter]) -> Vec<&'static Parameter> {
        described(self.parameters.iter().filter(|name| !shared.iter().any(|known| known.name == **name)))
    }
}

fn described<'a>(names: impl Iterator<Item = &'a &'static str>) -> Vec<&'static Parameter> {
    let mut all: Vec<_> = names.filter_map(|name| parameters::named(name)).collect();
    all.sort_unstable_by_key(|parameter| parameter.name);
    all
}

/// A kind while its paths are made.
pub struct Subject<'a> {
    pub info: &'a KindInfo,
    /// Of its schema.
    pub schema: String,
    /// Its schema has a binary form.
    pub binary: bool,
    /// Of all kinds alike.
    pub shared: &'a Shared,
}

/// Names of schemas that all kinds need.
pub struct Shared {
    pub status: String,
    pub patch: String,
    pub delete_options: String,
}

/// Every path of a kind.
pub fn paths(subject: &Subject<'_>, definitions: &mut Definitions) -> Vec<PathItem> {
    let info = subject.info;
    let root = root(&info.group, &info.version);
    let inside = if info.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{inside}/{}", info.names.plural);
    let everywhere = format!("{root}/{}", info.names.plural);
    let one = format!("{collection}/{{name}}");
    let mut paths = vec![
        PathItem { path: collection, operations: subject.on_collection() },
        PathItem { path: one.clone(), operations: subject.on_object() },
    ];
    if info.namespaced {
        paths.push(PathItem { path: everywhere, operations: subject.on_all_namespaces() });
    }
    paths.extend(subresources::paths(subject, &one, definitions));
    paths.retain(|item| !item.operations.is_empty());
    paths
}

/// `/api/v1` or `/apis/group/version`.
pub fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// `storage` for `storage.k8s.io`, `rbacAuthorization` for `rbac.authorization.k8s.io`, `core` for the core group.
fn group_word(group: &str) -> String {
    let short = group.strip_suffix(".k8s.io").unwrap_or(group);
    let words = short.split(['.', '-']).enumerate();
    let joined: String = words.map(|(at, word)| if at == 0 { word.into() } else { capital(word) }).collect();
    if joined.is_empty() { "core".into() } else { joined }
}

pub fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

pub fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", group_word(group))
}

/// `StorageV1`, as it stands in the ids of operations.
pub fn prefix(group: &str, version: &str) -> String {
    capital(&group_word(group)) + &capital(version)
}

impl Subject<'_> {
    fn scope(&self) -> &'static str {
        if self.info.namespaced { "Namespaced" } else { "" }
    }

    fn may(&self, verb: &str) -> bool {
        self.info.verbs.contains(&verb)
    }

    /// An operation with one good answer, to be completed by the caller.
    pub fn operation(&self, method: &'static str, action: &'static str, word: &str, rest: &str) -> Operation {
        let info = self.info;
        let mut parameters = Vec::new();
        if info.namespaced {
            parameters.push("namespace");
        }
        Operation {
            method,
            action,
            id: format!("{word}{}{rest}", prefix(&info.group, &info.version)),
            tag: tag(&info.group, &info.version),
            description: String::new(),
            parameters,
            request: Request::Nothing,
            media: Media::Object { binary: self.binary },
            answers: vec![(200, Answer::Schema(self.schema.clone()))],
            kind: Some([info.group.to_string(), info.version.to_string(), info.kind.to_string()]),
        }
    }

    fn on_collection(&self) -> Vec<Operation> {
        let (kind, scope) = (&self.info.kind, self.scope());
        let mut all = Vec::new();
        if self.may("list") {
            all.push(self.listing(self.operation("get", "list", "list", &format!("{scope}{kind}"))));
        }
        if self.may("create") {
            let create = self.operation("post", "post", "create", &format!("{scope}{kind}"));
            all.push(self.creating(create, self.schema.clone(), format!("create a {kind}")));
        }
        if self.may("deletecollection") {
            let mut delete =
                self.operation("delete", "deletecollection", "delete", &format!("Collection{scope}{kind}"));
            delete.description = format!("delete every {kind} that the selectors match");
            delete.parameters.extend(parameters::DELETE_COLLECTION);
            delete.request = Request::Options(self.shared.delete_options.clone());
            delete.answers = vec![(200, Answer::Schema(self.shared.status.clone()))];
            all.push(delete);
        }
        all
    }

    fn on_all_namespaces(&self) -> Vec<Operation> {
        if !self.may("list") {
            return Vec::new();
        }
        let mut list = self.operation("get", "list", "list", &format!("{}ForAllNamespaces", self.info.kind));
        list.parameters.clear();
        vec![self.listing(list)]
    }

    fn listing(&self, mut list: Operation) -> Operation {
        list.description = format!("list or watch objects of kind {}", self.info.kind);
        list.parameters.extend(parameters::LIST);
        list.media = Media::Stream { binary: self.binary };
        list.answers = vec![(200, Answer::Schema(list_name(&self.schema)))];
        list
    }

    fn on_object(&self) -> Vec<Operation> {
        let rest = format!("{}{}", self.scope(), self.info.kind);
        let verbs = self.info.verbs;
        let mut all = self.reading_and_writing(verbs, &rest, "", &self.schema);
        if self.may("delete") {
            let mut delete = self.operation("delete", "delete", "delete", &rest);
            delete.description = format!("delete one {}", self.info.kind);
            delete.parameters.push("name");
            delete.parameters.extend(parameters::DELETE);
            delete.request = Request::Options(self.shared.delete_options.clone());
            let answer = Answer::Schema(match self.info.delete_reply {
                DeleteReply::Object => self.schema.clone(),
                DeleteReply::Status => self.shared.status.clone(),
            });
            delete.answers = vec![(200, answer.clone()), (202, answer)];
            all.push(delete);
        }
        all
    }

    /// GET, PUT and PATCH of an object or of a part of it.
    pub fn reading_and_writing(
        &self,
        verbs: &[&str],
        rest: &str,
        part: &str,
        schema: &str,
    ) -> Vec<Operation> {
        let what = if part.is_empty() { String::new() } else { format!("the {part} of ") };
        let kind = &self.info.kind;
        let binary = self.binary;
        let answer = |code| (code, Answer::Schema(schema.to_owned()));
        let words = [("get", "get", "read"), ("update", "put", "replace"), ("patch", "patch", "patch")];
        let asked = words.into_iter().filter(|(verb, ..)| verbs.contains(verb));
        asked
            .map(|(verb, method, word)| {
                let mut operation = self.operation(method, method, word, rest);
                operation.parameters.push("name");
                operation.description = format!("{word} {what}one {kind}");
                operation.answers = vec![answer(200)];
                operation.media = Media::Object { binary };
                match verb {
                    "get" => operation.parameters.extend(parameters::READ),
                    "update" => {
                        operation.parameters.extend(parameters::WRITE);
                        operation.request = Request::Object(schema.to_owned());
                        operation.answers.push(answer(201));
                    }
                    _ => {
                        operation.parameters.extend(parameters::PATCH);
                        let schema = self.shared.patch.clone();
                        operation.request = Request::Patch { schema, strategic: binary };
                        operation.answers.push(answer(201));
                    }
                }
                operation
            })
            .collect()
    }

    /// POST of an object, or of what a subresource takes.
    pub fn creating(&self, mut create: Operation, schema: String, description: String) -> Operation {
        create.description = description;
        create.parameters.extend(parameters::WRITE);
        create.answers = [200, 201, 202].map(|code| (code, Answer::Schema(schema.clone()))).into();
        create.request = Request::Object(schema);
        create
    }
}
