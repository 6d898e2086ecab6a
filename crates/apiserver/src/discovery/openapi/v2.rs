//! The one document of OpenAPI v2, in JSON. Schemas are those of v3, less what v2 cannot say.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definitions::PREFIX;
use super::operations::{Answer, Operation, PathItem, Request};
use super::parameters::Parameter;
use super::v3::{code_words, patch_types};
use super::{TITLE, VERSION};

/// Clients look for these in the operation itself and follow no reference.
const INLINE: [&str; 2] = ["dryRun", "fieldValidation"];

pub fn document(paths: &[PathItem], schemas: Map<String, Value>) -> Value {
    let mut shared = BTreeMap::new();
    let paths: Map<String, Value> =
        paths.iter().map(|item| (item.path.clone(), path(item, &mut shared))).collect();
    let definitions: Map<String, Value> =
        schemas.into_iter().map(|(name, definition)| (name, schema(definition))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "definitions": definitions,
        "parameters": shared,
        "securityDefinitions": {
            "BearerToken": {
                "description": "Bearer Token authentication",
                "type": "apiKey",
                "name": "authorization",
                "in": "header",
            },
        },
        "security": [{"BearerToken": []}],
    })
}

type Parameters = BTreeMap<&'static str, Value>;

fn path(item: &PathItem, parameters: &mut Parameters) -> Value {
    let common = item.shared();
    let mut out = Map::new();
    for operation in &item.operations {
        let own = operation.own(&common);
        out.insert(operation.method.into(), self::operation(operation, &own, parameters));
    }
    if !common.is_empty() {
        out.insert("parameters".into(), common.iter().map(|one| parameter(one, parameters)).collect());
    }
    out.into()
}

/// A parameter, or a reference to it.
fn parameter(parameter: &'static Parameter, shared: &mut Parameters) -> Value {
    let mut out = json!({
        "uniqueItems": true,
        "type": parameter.type_,
        "description": parameter.description,
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
    });
    if parameter.in_path {
        out["required"] = true.into();
    }
    if INLINE.contains(&parameter.name) {
        return out;
    }
    shared.insert(parameter.name, out);
    json!({"$ref": format!("#/parameters/{}", parameter.name)})
}

fn operation(operation: &Operation, own: &[&'static Parameter], shared: &mut Parameters) -> Value {
    let mut parameters: Vec<Value> = body(&operation.request).into_iter().collect();
    parameters.extend(own.iter().map(|one| parameter(one, shared)));
    let answers =
        operation.answers.iter().map(|(code, answer)| (code.to_string(), self::answer(*code, answer)));
    let mut responses: Map<String, Value> = answers.collect();
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    let consumes = match &operation.request {
        Request::Patch { strategic, .. } => patch_types(*strategic),
        _ => &["*/*"],
    };
    let mut out = json!({
        "description": operation.description,
        "consumes": consumes,
        "produces": operation.media.types(),
        "schemes": ["https"],
        "tags": [operation.tag],
        "operationId": operation.id,
        "responses": responses,
    });
    if !parameters.is_empty() {
        out["parameters"] = parameters.into();
    }
    if !operation.action.is_empty() {
        out["x-kubernetes-action"] = operation.action.into();
    }
    if let Some([group, version, kind]) = &operation.kind {
        out["x-kubernetes-group-version-kind"] = json!({"group": group, "version": version, "kind": kind});
    }
    out
}

fn body(request: &Request) -> Option<Value> {
    let (schema, required) = match request {
        Request::Nothing => return None,
        Request::Object(schema) | Request::Patch { schema, .. } => (schema, true),
        Request::Options(schema) => (schema, false),
    };
    let mut out = json!({"name": "body", "in": "body", "schema": reference(schema)});
    if required {
        out["required"] = true.into();
    }
    Some(out)
}

fn answer(code: u16, answer: &Answer) -> Value {
    let description = code_words(code);
    match answer {
        Answer::Schema(schema) => json!({"description": description, "schema": reference(schema)}),
        Answer::Text => json!({"description": description, "schema": {"type": "string"}}),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/definitions/{name}")})
}

/// A schema of v3 as v2 can say it.
fn schema(v3: Value) -> Value {
    let Value::Object(mut object) = v3 else { return v3 };
    let free = object.remove("oneOf").is_some() && !object.contains_key("type");
    let either = object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    for unknown in ["default", "anyOf", "not", "nullable"] {
        object.remove(unknown);
    }
    // A reference that was wrapped for the sake of its companions; v2 ignores them.
    let wrapped = object.remove("allOf").and_then(|all| Some(all.get(0)?.get("$ref")?.clone()));
    if let Some(target) = wrapped {
        object.insert("$ref".into(), target);
    }
    if let Some(Value::String(target)) = object.get_mut("$ref") {
        *target = format!("#/definitions/{}", target.trim_start_matches(PREFIX));
    }
    if free && !either {
        object.insert("type".into(), "string".into());
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(inner) {
            *inner = schema(inner.take());
        }
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = schema(property.take()));
    }
    object.into()
}
