//! Defaults have to fit the schema they stand in.

use serde_json::Value;

use crate::custom::prune::prune_value;
use crate::custom::rules::Rules;
use crate::custom::schema::{META_FIELDS, Role, Schema};
use crate::custom::{embedded, validate};
use crate::field::Invalid;

pub fn errors(schema: &Schema, path: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    walk(schema, path, true, false, &mut errors);
    errors
}

fn walk(schema: &Schema, path: &str, whole: bool, inside_meta: bool, errors: &mut Vec<Invalid>) {
    if let Some(default) = schema.default.as_ref().filter(|_| !inside_meta) {
        errors.extend(check(schema, default, &format!("{path}.default")));
    }
    let whole = whole || schema.embedded_resource;
    for (role, below) in schema.children() {
        // What stands under additional keys has no default.
        let inside_meta = match role {
            Role::Property(name) => inside_meta || (whole && META_FIELDS.contains(&name)),
            Role::Items => inside_meta,
            _ => continue,
        };
        walk(below, &role.below(path), false, inside_meta, errors);
    }
}

fn check(schema: &Schema, default: &Value, path: &str) -> Vec<Invalid> {
    let mut pruned = default.clone();
    prune_value(&mut pruned, schema);
    let unknown = pruned != *default;
    let mut errors = Vec::new();
    if unknown {
        errors.push(Invalid::invalid(path, default.clone(), "must not have unknown fields"));
    }
    let mut coerced = default.clone();
    if let Err(error) = embedded::coerce(&mut coerced, schema, path, &mut Vec::new()) {
        errors.push(error);
        return errors;
    }
    for found in [embedded::validate(default, schema, path), validate::validate(path, default, schema, None)]
    {
        if !found.is_empty() {
            errors.extend(found);
            return errors;
        }
    }
    if let Some(rules) = Rules::of(schema, schema.embedded_resource) {
        let found = rules.check(default, Some(default));
        let found = if found.is_empty() { rules.check(default, None) } else { found };
        errors.extend(found.into_iter().map(|error| beneath(error, path)));
    }
    errors
}

/// Rules speak of the default as if it were the whole object.
fn beneath(error: Invalid, path: &str) -> Invalid {
    let field = match error.field.as_str() {
        "<nil>" => path.to_owned(),
        below if below.starts_with('[') => format!("{path}{below}"),
        below => format!("{path}.{below}"),
    };
    Invalid { field, ..error }
}
