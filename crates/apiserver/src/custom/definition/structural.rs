//! The rules that make a schema structural, so that the server can tell which fields an object may have.

use crate::custom::schema::{Additional, Role, Schema, compile};
use crate::field::Invalid;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural, sorted by text as upstream does.
pub fn errors(schema: &Schema, path: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn invariants(schema: &Schema, level: Level, path: &str, errors: &mut Vec<Invalid>) {
    if schema.type_ == "array" && schema.items.is_none() {
        errors.push(Invalid::required(format!("{path}.items"), "must be specified"));
    }
    for (role, below) in schema.children() {
        let level = match role {
            Role::Items => Level::Item,
            Role::Property(_) | Role::Additional => Level::Field,
            _ => continue,
        };
        invariants(below, level, &role.below(path), errors);
    }
    let at = |field: &str| format!("{path}.{field}");
    if level == Level::Root && schema.additional_properties.is_some() {
        errors.push(Invalid::forbidden(at("additionalProperties"), "must not be used at the root"));
    }
    if schema.int_or_string {
        let why = "must be false if x-kubernetes-int-or-string is true";
        if schema.preserves_unknown() {
            errors.push(Invalid::invalid(at("x-kubernetes-preserve-unknown-fields"), true, why));
        }
        if schema.embedded_resource {
            errors.push(Invalid::invalid(at("x-kubernetes-embedded-resource"), true, why));
        }
    }
    conditions(schema, path, level, errors);
    type_errors(schema, level, path, errors);
    metadata_errors(schema, level, path, errors);
    if schema.embedded_resource && !schema.preserves_unknown() && schema.properties.is_empty() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Invalid::required(at("properties"), why));
    }
}

fn type_errors(schema: &Schema, level: Level, path: &str, errors: &mut Vec<Invalid>) {
    let at = |field: &str| format!("{path}.{field}");
    let type_ = schema.type_.as_str();
    if schema.embedded_resource && type_ != "object" {
        const WHY: &str = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match type_ {
            "" => Invalid::required(at("type"), WHY),
            other => Invalid::invalid(at("type"), other, WHY),
        });
    } else if type_.is_empty() && !schema.int_or_string && !schema.preserves_unknown() {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Invalid::required(at("type"), why));
    }
    if schema.embedded_resource && schema.additional_properties.is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Invalid::forbidden(at("additionalProperties"), why));
    }
    if level == Level::Root && !type_.is_empty() && type_ != "object" {
        errors.push(Invalid::invalid(at("type"), type_, "must be object at the root"));
    }
}

/// Metadata belongs to the server; a schema may only restrict names.
fn metadata_errors(schema: &Schema, level: Level, path: &str, errors: &mut Vec<Invalid>) {
    let whole = level == Level::Root || schema.embedded_resource;
    for field in ["kind", "apiVersion"] {
        if let Some(property) = schema.properties.get(field).filter(|p| whole && p.type_ != "string") {
            let at = format!("{path}.properties[{field}].type");
            errors.push(Invalid::invalid(at, property.type_.as_str(), "must be string"));
        }
    }
    let Some(metadata) = schema.properties.get("metadata") else { return };
    if whole && metadata.type_ != "object" {
        let at = format!("{path}.properties[metadata].type");
        errors.push(Invalid::invalid(at, metadata.type_.as_str(), "must be object"));
    }
    if level == Level::Root {
        let named = metadata.properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"));
        let mut rest = metadata.clone();
        rest.type_.clear();
        rest.default = None;
        if named {
            rest.properties.clear();
        }
        if rest != Schema::default() {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(Invalid::forbidden(format!("{path}.properties[metadata]"), why));
        }
    }
}

/// `anyOf: [{type: integer}, {type: string}]`, which is how int-or-string is commonly written.
fn is_int_or_string(parts: &[Schema]) -> bool {
    let bare = |type_: &str| Schema { type_: type_.into(), ..Schema::default() };
    parts == [bare("integer"), bare("string")]
}

/// What stands inside of `allOf` and the like.
fn conditions(schema: &Schema, path: &str, level: Level, errors: &mut Vec<Invalid>) {
    let skip_any = is_int_or_string(&schema.any_of);
    let skip_first_all = schema.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
    junctors(schema, path, level, skip_any, skip_first_all, errors);
    pattern_error(schema, path, errors);
}

fn junctors(
    schema: &Schema,
    path: &str,
    level: Level,
    skip_any: bool,
    skip_first_all: bool,
    errors: &mut Vec<Invalid>,
) {
    for (role, below) in schema.children() {
        let skip_below = match role {
            Role::AnyOf(_) if skip_any => continue,
            Role::AllOf(0) => skip_first_all,
            _ if role.is_condition() => false,
            _ => continue,
        };
        nested(below, skip_below, level, &role.below(path), errors);
    }
}

fn pattern_error(schema: &Schema, path: &str, errors: &mut Vec<Invalid>) {
    if schema.pattern.is_empty() {
        return;
    }
    if let Err(why) = compile(&schema.pattern.text) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(Invalid::invalid(format!("{path}.pattern"), schema.pattern.text.as_str(), why));
    }
}

fn nested(schema: &Schema, skip_any: bool, level: Level, path: &str, errors: &mut Vec<Invalid>) {
    junctors(schema, path, level, skip_any, false, errors);
    pattern_error(schema, path, errors);
    for (role, below) in schema.children() {
        match role {
            Role::Items => nested(below, false, level, &role.below(path), errors),
            Role::Property(_) => nested(below, false, Level::Field, &role.below(path), errors),
            _ => {}
        }
    }
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    let additional = !matches!(schema.additional_properties, None | Some(Additional::Allowed(false)));
    let forbidden = [
        (!schema.type_.is_empty(), "type", EMPTY),
        (additional, "additionalProperties", UNDEFINED),
        (schema.default.is_some(), "default", UNDEFINED),
        (schema.titled, "title", EMPTY),
        (schema.described, "description", EMPTY),
        (schema.nullable, "nullable", FALSE),
        (schema.preserves_unknown(), "x-kubernetes-preserve-unknown-fields", FALSE),
        (schema.embedded_resource, "x-kubernetes-embedded-resource", FALSE),
        (schema.int_or_string, "x-kubernetes-int-or-string", FALSE),
        (!schema.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", EMPTY),
        (schema.list_type.is_some(), "x-kubernetes-list-type", UNDEFINED),
        (schema.map_type.is_some(), "x-kubernetes-map-type", UNDEFINED),
        (!schema.validations.is_empty(), "x-kubernetes-validations", EMPTY),
    ];
    let found = forbidden.into_iter().filter(|(set, ..)| *set);
    errors.extend(found.map(|(_, field, why)| Invalid::forbidden(format!("{path}.{field}"), why)));
    if schema.properties.contains_key("metadata") {
        let why = "must not be specified in a nested context";
        errors.push(Invalid::forbidden(format!("{path}.properties[metadata]"), why));
    }
}

/// Whatever a condition speaks of is described outside of it.
fn completeness(
    schema: &Schema,
    spine: Option<&Schema>,
    spine_path: &str,
    path: &str,
    errors: &mut Vec<Invalid>,
) {
    let Some(spine) = spine else {
        errors.push(Invalid::required(spine_path, format!("because it is defined in {path}")));
        return;
    };
    for (role, below) in schema.children() {
        if role.is_condition() {
            let at = role.below(path);
            completeness(below, Some(spine), spine_path, &at, errors);
            described(below, spine, spine_path, &at, errors);
        }
    }
}

fn described(condition: &Schema, spine: &Schema, spine_path: &str, path: &str, errors: &mut Vec<Invalid>) {
    for (role, below) in condition.children() {
        let counterpart = match role {
            Role::Items => spine.items(),
            Role::Property(name) => spine.properties.get(name),
            _ => continue,
        };
        let (at, spine_at) = (role.below(path), role.below(spine_path));
        completeness(below, counterpart, &spine_at, &at, errors);
        if let Some(counterpart) = counterpart {
            described(below, counterpart, &spine_at, &at, errors);
        }
    }
}

/// What upstream's reader of structural schemas does not take at all.
pub fn unsupported(schema: &Schema) -> Option<String> {
    let named = [
        (!schema.id.is_empty(), "id"),
        (!schema.dialect.is_empty(), "schema"),
        (schema.reference.as_ref().is_some_and(|reference| !reference.is_empty()), "$ref"),
        (schema.pattern_properties, "patternProperties"),
        (schema.dependencies == Some(true), "dependencies"),
        (schema.additional_items, "additionalItems"),
        (schema.definitions, "definitions"),
    ];
    if let Some((_, name)) = named.into_iter().find(|(set, _)| *set) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.preserve_unknown_fields == Some(false) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".into(),
        );
    }
    if schema.items.is_some() && schema.items().is_none() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".into());
    }
    schema.children().into_iter().find_map(|(_, below)| unsupported(below))
}
