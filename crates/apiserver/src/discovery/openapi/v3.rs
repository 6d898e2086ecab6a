//! Documents of OpenAPI v3, one per group and version.

use serde_json::{Map, Value, json};

use super::definitions::reference;
use super::operations::{Answer, Media, Operation, PathItem, Request};
use super::parameters::Parameter;
use super::{TITLE, VERSION};

pub fn document(paths: &[PathItem], schemas: Map<String, Value>) -> Value {
    let paths: Map<String, Value> = paths.iter().map(|item| (item.path.clone(), path(item))).collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey",
                    "description": "Bearer Token authentication",
                    "name": "authorization",
                    "in": "header",
                },
            },
        },
    })
}

fn path(item: &PathItem) -> Value {
    let shared = item.shared();
    let mut out = Map::new();
    for operation in &item.operations {
        out.insert(operation.method.into(), self::operation(operation, &operation.own(&shared)));
    }
    put_parameters(&mut out, &shared);
    out.into()
}

fn put_parameters(out: &mut Map<String, Value>, parameters: &[&Parameter]) {
    if !parameters.is_empty() {
        out.insert("parameters".into(), parameters.iter().map(|one| parameter(one)).collect());
    }
}

fn parameter(parameter: &Parameter) -> Value {
    let mut out = json!({
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
        "description": parameter.description,
        "schema": {"type": parameter.type_, "uniqueItems": true},
    });
    if parameter.in_path {
        out["required"] = true.into();
    }
    out
}

fn operation(operation: &Operation, parameters: &[&Parameter]) -> Value {
    let answers = operation
        .answers
        .iter()
        .map(|(code, answer)| (code.to_string(), self::answer(*code, answer, operation.media)));
    let mut responses: Map<String, Value> = answers.collect();
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    let mut out = Map::new();
    out.insert("tags".into(), json!([operation.tag]));
    out.insert("description".into(), operation.description.as_str().into());
    out.insert("operationId".into(), operation.id.as_str().into());
    put_parameters(&mut out, parameters);
    if let Some(body) = request(&operation.request) {
        out.insert("requestBody".into(), body);
    }
    out.insert("responses".into(), responses.into());
    if !operation.action.is_empty() {
        out.insert("x-kubernetes-action".into(), operation.action.into());
    }
    if let Some([group, version, kind]) = &operation.kind {
        let kind = json!({"group": group, "version": version, "kind": kind});
        out.insert("x-kubernetes-group-version-kind".into(), kind);
    }
    out.into()
}

fn request(request: &Request) -> Option<Value> {
    match request {
        Request::Nothing => None,
        Request::Object(schema) => Some(json!({"content": content(&["*/*"], schema), "required": true})),
        Request::Options(schema) => Some(json!({"content": content(&["*/*"], schema)})),
        Request::Patch { schema, strategic } => {
            let types = patch_types(*strategic);
            Some(json!({"content": content(types, schema), "required": true}))
        }
    }
}

/// Media types of patches.
pub fn patch_types(strategic: bool) -> &'static [&'static str] {
    const ALL: [&str; 4] = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
        "application/strategic-merge-patch+json",
    ];
    if strategic { &ALL } else { &ALL[..3] }
}

fn content(types: &[&str], schema: &str) -> Map<String, Value> {
    types.iter().map(|media| (media.to_string(), json!({"schema": reference(schema)}))).collect()
}

fn answer(code: u16, answer: &Answer, media: Media) -> Value {
    let description = code_words(code);
    let content = match answer {
        Answer::Schema(schema) => content(media.types(), schema),
        Answer::Text => {
            let text = |media: &&str| (media.to_string(), json!({"schema": {"type": "string"}}));
            media.types().iter().map(text).collect()
        }
    };
    json!({"description": description, "content": content})
}

pub fn code_words(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        _ => "OK",
    }
}
