//! The schema inside of a definition: which parts of OpenAPI it may use, and whether its expressions work.

use serde_json::Value;

use super::{defaults, internal, structural};
use crate::custom::field_path;
use crate::custom::rules::Compiler;
use crate::custom::schema::{Additional, Items, META_FIELDS, Role, Rule, Schema};
use crate::field::{Invalid, Reason};
use crate::kinds::check::one_of;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Fields that may stand at the root if the status is split off, in upstream's words and order.
const AT_ROOT: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations";

/// All that is wrong with a schema. `path` leads to the schema itself, `status` says whether the status is split off.
pub fn errors(json: &Value, path: &str, status: bool) -> Vec<Invalid> {
    let schema = Schema::parse(json).unwrap_or_default();
    let mut errors = Vec::new();
    if status {
        errors.extend(root_error(json, &schema, path));
    }
    if schema.nullable {
        errors.push(Invalid::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = structural::unsupported(&schema);
    let mut sound = unsupported.is_none();
    if sound {
        let mut found = structural::errors(&schema, path);
        if found.is_empty() {
            found = defaults::errors(&schema, path);
        }
        sound = found.is_empty();
        errors.extend(found);
    }
    let mut check = Check { schema_errors: Vec::new(), rule_errors: Vec::new() };
    check.node(&schema, path, &Around { root: true, rules: sound, ..Around::default() });
    errors.append(&mut check.schema_errors);
    errors.append(&mut check.rule_errors);
    if let (true, Some(why)) = (errors.is_empty(), unsupported) {
        errors.push(Invalid::invalid(path, "", why));
    }
    errors
}

fn root_error(json: &Value, schema: &Schema, path: &str) -> Option<Invalid> {
    for (field, value) in json.as_object()? {
        let name = internal::name_of(field);
        if field == "type" {
            if schema.type_ != "object" {
                let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                return Some(Invalid::invalid(format!("{path}.type"), schema.type_.as_str(), why));
            }
            continue;
        }
        let set = !matches!(value, Value::Null | Value::Bool(false));
        if set && !AT_ROOT.split(' ').any(|allowed| allowed == name) {
            let why = format!(
                "only [{AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
            );
            return Some(raw(path, &internal::schema(json), why));
        }
    }
    None
}

/// An error whose value is shown in a form of upstream's.
fn raw(field: &str, value: &str, why: impl std::fmt::Display) -> Invalid {
    Invalid {
        reason: Reason::Invalid,
        field: field.to_owned(),
        value: None,
        detail: format!("{value}: {why}"),
    }
}

/// What a node has to know of those above it.
#[derive(Clone, Default)]
struct Around {
    root: bool,
    /// Expressions are looked at: the schema is structural, and this is no condition.
    rules: bool,
    inside_meta: bool,
    /// Why there may be no default here.
    no_default: Option<String>,
    /// Above which node old and new values cannot be matched.
    unmatched: Option<String>,
}

struct Check {
    schema_errors: Vec<Invalid>,
    rule_errors: Vec<Invalid>,
}

impl Check {
    fn add(&mut self, error: Invalid) {
        self.schema_errors.push(error);
    }

    fn node(&mut self, schema: &Schema, path: &str, around: &Around) {
        let before = self.schema_errors.len();
        self.dialect(schema, path, around);
        if schema.unique_items {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.add(Invalid::forbidden(format!("{path}.uniqueItems"), why));
        }
        let restricts = !matches!(schema.additional_properties, None | Some(Additional::Allowed(true)));
        if restricts && !schema.properties.is_empty() {
            let why = "additionalProperties and properties are mutual exclusive";
            self.add(Invalid::forbidden(format!("{path}.additionalProperties"), why));
        }
        for (role, below) in schema.children() {
            self.node(below, &role.below(path), &beneath(schema, &role, path, around));
        }
        if schema.preserve_unknown_fields == Some(false) {
            let at = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.add(Invalid::invalid(at, false, "must be true or undefined"));
        }
        self.map_type(schema, path);
        self.list_type(schema, path);
        self.list_keys(schema, path);
        self.rules(schema, path, around, before);
    }

    /// Parts of OpenAPI that are not taken.
    fn dialect(&mut self, schema: &Schema, path: &str, around: &Around) {
        let at = |field: &str| format!("{path}.{field}");
        if !schema.type_.is_empty() {
            self.schema_errors.extend(one_of(&at("type"), &schema.type_, &TYPES));
        }
        if let (true, Some(why)) = (schema.default.is_some(), &around.no_default) {
            self.add(Invalid::forbidden(at("default"), format!("must not be set {why}")));
        }
        let refused = [
            (!schema.id.is_empty(), "id"),
            (schema.additional_items, "additionalItems"),
            (schema.pattern_properties, "patternProperties"),
            (schema.definitions, "definitions"),
            (schema.dependencies.is_some(), "dependencies"),
            (schema.reference.is_some(), "$ref"),
        ];
        for (_, field) in refused.into_iter().filter(|(set, _)| *set) {
            self.add(Invalid::forbidden(at(field), format!("{field} is not supported")));
        }
        if schema.type_ == "null" {
            let why = "type cannot be set to null, use nullable as an alternative";
            self.add(Invalid::forbidden(at("type"), why));
        }
        if matches!(&schema.items, Some(Items::Each(all)) if !all.is_empty()) {
            self.add(Invalid::forbidden(at("items"), "items must be a schema object and not an array"));
        }
        if around.inside_meta && schema.embedded_resource {
            let why = "must not be used inside of resource meta";
            self.add(Invalid::forbidden(at("x-kubernetes-embedded-resource"), why));
        }
    }

    fn map_type(&mut self, schema: &Schema, path: &str) {
        let Some(map_type) = &schema.map_type else { return };
        self.needs_type(schema, path, "object", "must be object if x-kubernetes-map-type is specified");
        let at = format!("{path}.x-kubernetes-map-type");
        self.schema_errors.extend(one_of(&at, map_type, &["atomic", "granular"]));
    }

    fn needs_type(&mut self, schema: &Schema, path: &str, wanted: &str, why: &str) -> bool {
        let at = format!("{path}.type");
        match schema.type_.as_str() {
            found if found == wanted => return true,
            "" => self.add(Invalid::required(at, why)),
            found => self.add(Invalid::invalid(at, found, why)),
        }
        false
    }

    fn list_type(&mut self, schema: &Schema, path: &str) {
        let Some(list_type) = &schema.list_type else { return };
        let fits =
            self.needs_type(schema, path, "array", "must be array if x-kubernetes-list-type is specified");
        if let (true, "set", Some(items)) = (fits, list_type.as_str(), schema.items()) {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let shown = || items.list_type.clone().map_or(Value::Null, Value::from);
            match items.type_.as_str() {
                "array" if items.list_type.as_deref().is_some_and(|inner| inner != "atomic") => {
                    self.add(Invalid::invalid(format!("{path}.items.x-kubernetes-list-type"), shown(), why));
                }
                "object" if items.map_type.as_deref() != Some("atomic") => {
                    self.add(Invalid::invalid(format!("{path}.items.x-kubernetes-map-type"), shown(), why));
                }
                _ => {}
            }
        }
        let at = format!("{path}.x-kubernetes-list-type");
        self.schema_errors.extend(one_of(&at, list_type, &["atomic", "set", "map"]));
    }

    fn list_keys(&mut self, schema: &Schema, path: &str) {
        let at = |field: &str| format!("{path}.{field}");
        let keys = &schema.list_map_keys;
        if !keys.is_empty() && !schema.is_list("map") {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            let field = at("x-kubernetes-list-type");
            self.add(match &schema.list_type {
                None => Invalid::required(field, why),
                Some(other) => Invalid::invalid(field, other.as_str(), why),
            });
        }
        if schema.is_list("map") {
            self.map_list(schema, path);
        }
        let Some(items) = schema.items().filter(|_| schema.is_list("map") || schema.is_list("set")) else {
            return;
        };
        if items.nullable {
            let list_type = schema.list_type.as_deref().unwrap_or_default();
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.add(Invalid::forbidden(at("items.nullable"), why));
        }
        for (key, property) in keys.iter().filter_map(|key| Some((key, items.properties.get(key)?))) {
            let at = format!("{path}.items.properties[{key}]");
            if !schema.is_list("map") {
                continue;
            }
            if !items.required.contains(key) && property.default.is_none() {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.add(Invalid::required(format!("{at}.default"), why));
            }
            if property.nullable {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.add(Invalid::forbidden(format!("{at}.nullable"), why));
            }
        }
    }

    fn map_list(&mut self, schema: &Schema, path: &str) {
        let at = |field: &str| format!("{path}.{field}");
        let keys = &schema.list_map_keys;
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            self.add(Invalid::required(at("x-kubernetes-list-map-keys"), why));
        }
        let Some(items) = schema.items() else {
            self.add(match &schema.items {
                None => Invalid::required(at("items"), "must have a schema if x-kubernetes-list-type is map"),
                Some(_) => {
                    let why = "must only have a single schema if x-kubernetes-list-type is map";
                    Invalid::invalid(at("items"), Value::Null, why)
                }
            });
            return;
        };
        if items.type_ != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.add(Invalid::invalid(at("items.type"), items.type_.as_str(), why));
            return;
        }
        for (index, key) in keys.iter().enumerate() {
            let field = at("x-kubernetes-list-map-keys");
            match items.properties.get(key) {
                None => {
                    let why = "entries must all be names of item properties";
                    self.add(Invalid::invalid(field.as_str(), keys.clone(), why));
                }
                Some(property) if matches!(property.type_.as_str(), "array" | "object") => {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.add(Invalid::invalid(format!("{path}.items.properties[{key}].type"), "object", why));
                }
                Some(_) => {}
            }
            if keys[..index].contains(key) {
                self.add(Invalid::invalid(field, keys.clone(), "must not contain duplicate entries"));
            }
        }
    }

    fn rules(&mut self, schema: &Schema, path: &str, around: &Around, errors_before: usize) {
        for (index, rule) in schema.validations.iter().enumerate() {
            let at = format!("{path}.x-kubernetes-validations[{index}]");
            self.schema_errors.extend(rule_texts(rule, &at));
            if !rule.field_path.is_empty() && field_path::resolve(&rule.field_path, schema, true).is_err() {
                let field = format!("{at}.fieldPath");
                self.add(Invalid::invalid(field, rule.field_path.as_str(), "must be a valid path"));
            }
        }
        // Where the schema is wrong, complaints about expressions would only confuse.
        if !around.rules || self.schema_errors.len() > errors_before {
            return;
        }
        if schema.validations.is_empty() {
            return;
        }
        let compiler = Compiler::new(schema, around.root || schema.embedded_resource);
        for (index, rule) in schema.validations.iter().enumerate() {
            let at = format!("{path}.x-kubernetes-validations[{index}]");
            self.rule_errors.extend(rule_errors(&compiler, rule, &at, around));
        }
    }
}

fn rule_errors(compiler: &Compiler<'_>, rule: &Rule, at: &str, around: &Around) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let compiled = compiler.compile(rule);
    if let Err(why) = &compiled.program {
        errors.push(raw(&format!("{at}.rule"), &internal::rule(rule), why));
    }
    if let Some(Err(why)) = &compiled.message {
        errors.push(raw(&format!("{at}.messageExpression"), &internal::rule(rule), why));
    }
    let uses_old = compiled.program.as_ref().is_ok_and(|program| program.uses_old);
    match (&around.unmatched, rule.optional_old_self) {
        (Some(above), _) if uses_old => {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
            errors.push(Invalid::invalid(format!("{at}.rule"), rule.rule.as_str(), why));
        }
        (_, Some(optional)) if !uses_old => {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(Invalid::invalid(format!("{at}.optionalOldSelf"), optional, why));
        }
        _ => {}
    }
    errors
}

fn rule_texts(rule: &Rule, at: &str) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let field = |name: &str| format!("{at}.{name}");
    if text.is_empty() {
        errors.push(Invalid::required(field("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        errors.push(Invalid::invalid(
            field("message"),
            rule.message.as_str(),
            "must be non-empty if specified",
        ));
    } else if breaks(message) {
        errors.push(Invalid::invalid(
            field("message"),
            rule.message.as_str(),
            "must not contain line breaks",
        ));
    } else if breaks(text) && message.is_empty() {
        errors.push(Invalid::required(
            field("message"),
            "message must be specified if rule contains line breaks",
        ));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(Invalid::required(field("messageExpression"), why));
    }
    if let Some(reason) = &rule.reason {
        errors.extend(one_of(&field("reason"), reason, &REASONS));
    }
    let path = rule.field_path.as_str();
    if !path.is_empty() && path.trim().is_empty() {
        errors.push(Invalid::invalid(field("fieldPath"), path, "must be non-empty if specified"));
    }
    if breaks(path) {
        errors.push(Invalid::invalid(field("fieldPath"), path, "must not contain line breaks"));
    }
    errors
}

/// What a child has to know.
fn beneath(schema: &Schema, role: &Role<'_>, path: &str, around: &Around) -> Around {
    let mut below = Around { root: false, ..around.clone() };
    match role {
        Role::Property(name) => {
            let whole = around.root || schema.embedded_resource;
            if whole && META_FIELDS.contains(name) {
                below.inside_meta = true;
                if around.root {
                    below.no_default = Some(format!("in top-level {name}"));
                }
            }
        }
        Role::Additional => {
            if around.inside_meta {
                below.no_default = Some("inside additionalProperties applying to object metadata".into());
            }
        }
        Role::Items => {
            if !schema.is_list("map") && below.unmatched.is_none() {
                below.unmatched = Some(path.to_owned());
            }
        }
        _ => below.rules = false,
    }
    below
}
