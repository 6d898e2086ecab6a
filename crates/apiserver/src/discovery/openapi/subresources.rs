//! Paths below an object.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Binding;
use k8s_openapi::api::policy::v1::Eviction;

use super::definitions::Definitions;
use super::operations::{Answer, Media, Operation, PathItem, Subject, capital};
use super::parameters;

pub fn paths(subject: &Subject<'_>, object: &str, definitions: &mut Definitions) -> Vec<PathItem> {
    let all = crate::discovery::subresources(subject.info);
    let items = all.into_iter().map(|(name, verbs, kind)| PathItem {
        path: format!("{object}/{name}"),
        operations: operations(subject, name, verbs, kind, definitions),
    });
    items.collect()
}

fn operations(
    subject: &Subject<'_>,
    name: &str,
    verbs: &[&str],
    kind: [&str; 3],
    definitions: &mut Definitions,
) -> Vec<Operation> {
    let info = subject.info;
    let scope = if info.namespaced { "Namespaced" } else { "" };
    let rest = format!("{scope}{}{}", info.kind, capital(name));
    let own = kind == [&*info.group, &*info.version, &*info.kind];
    let schema = if own { Some(subject.schema.clone()) } else { schema(kind, definitions) };
    let mut all = match &schema {
        _ if name == "log" => vec![log(subject, &rest)],
        Some(schema) => with_schema(subject, name, verbs, &rest, schema),
        // What is neither an object nor a log is a stream of its own.
        None => connect(subject, name, verbs),
    };
    for operation in &mut all {
        if !operation.parameters.contains(&"name") {
            operation.parameters.push("name");
        }
        operation.kind = Some(kind.map(str::to_owned));
    }
    all
}

/// The schemas that subresources of other kinds take.
fn schema(kind: [&str; 3], definitions: &mut Definitions) -> Option<String> {
    let name = match kind {
        ["autoscaling", "v1", "Scale"] => definitions.add::<Scale>(),
        ["policy", "v1", "Eviction"] => definitions.add::<Eviction>(),
        ["authentication.k8s.io", "v1", "TokenRequest"] => definitions.add::<TokenRequest>(),
        ["", "v1", "Binding"] => definitions.add::<Binding>(),
        _ => return None,
    };
    definitions.mark(&name, kind);
    Some(name)
}

fn with_schema(
    subject: &Subject<'_>,
    name: &str,
    verbs: &[&str],
    rest: &str,
    schema: &str,
) -> Vec<Operation> {
    let mut all = subject.reading_and_writing(verbs, rest, name, schema);
    if verbs.contains(&"create") {
        let create = subject.operation("post", "post", "create", rest);
        let description = format!("create the {name} of one {}", subject.info.kind);
        all.push(subject.creating(create, schema.to_owned(), description));
    }
    all
}

fn log(subject: &Subject<'_>, rest: &str) -> Operation {
    let mut read = subject.operation("get", "get", "read", rest);
    read.description = format!("read the log of one {}", subject.info.kind);
    read.parameters.extend(parameters::LOG);
    read.media = Media::Text;
    read.answers = vec![(200, Answer::Text)];
    read
}

fn connect(subject: &Subject<'_>, name: &str, verbs: &[&str]) -> Vec<Operation> {
    let scope = if subject.info.namespaced { "Namespaced" } else { "" };
    let words = [("get", "get", "Get"), ("create", "post", "Post")];
    let asked = words.into_iter().filter(|(verb, ..)| verbs.contains(verb));
    asked
        .map(|(_, method, word)| {
            let rest = format!("{word}{scope}{}{}", subject.info.kind, capital(name));
            let mut operation = subject.operation(method, "connect", "connect", &rest);
            operation.description = format!("connect to the {name} of one {}", subject.info.kind);
            operation.parameters.extend(if name == "exec" { parameters::EXEC } else { &[] });
            operation.media = Media::Any;
            operation.answers = vec![(200, Answer::Text)];
            operation
        })
        .collect()
}
