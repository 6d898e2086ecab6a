//! Parts of a definition as upstream prints them in messages: as the JSON of its internal types, whose fields have
//! other names and are never left out.

use serde_json::Value;

use super::Version;
use crate::custom::schema::Rule;

/// What a field of upstream's schema type holds when nothing is set, and how it is printed else.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Any,
    One,
    Many,
    Named,
    Items,
    Additional,
    Rules,
}

const SCHEMA: [(&str, &str, Shape); 44] = [
    ("ID", "id", Shape::Text),
    ("Schema", "$schema", Shape::Text),
    ("Ref", "$ref", Shape::Any),
    ("Description", "description", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Nullable", "nullable", Shape::Flag),
    ("Format", "format", Shape::Text),
    ("Title", "title", Shape::Text),
    ("Default", "default", Shape::Any),
    ("Maximum", "maximum", Shape::Any),
    ("ExclusiveMaximum", "exclusiveMaximum", Shape::Flag),
    ("Minimum", "minimum", Shape::Any),
    ("ExclusiveMinimum", "exclusiveMinimum", Shape::Flag),
    ("MaxLength", "maxLength", Shape::Any),
    ("MinLength", "minLength", Shape::Any),
    ("Pattern", "pattern", Shape::Text),
    ("MaxItems", "maxItems", Shape::Any),
    ("MinItems", "minItems", Shape::Any),
    ("UniqueItems", "uniqueItems", Shape::Flag),
    ("MultipleOf", "multipleOf", Shape::Any),
    ("Enum", "enum", Shape::Any),
    ("MaxProperties", "maxProperties", Shape::Any),
    ("MinProperties", "minProperties", Shape::Any),
    ("Required", "required", Shape::Any),
    ("Items", "items", Shape::Items),
    ("AllOf", "allOf", Shape::Many),
    ("OneOf", "oneOf", Shape::Many),
    ("AnyOf", "anyOf", Shape::Many),
    ("Not", "not", Shape::One),
    ("Properties", "properties", Shape::Named),
    ("AdditionalProperties", "additionalProperties", Shape::Additional),
    ("PatternProperties", "patternProperties", Shape::Named),
    ("Dependencies", "dependencies", Shape::Any),
    ("AdditionalItems", "additionalItems", Shape::Any),
    ("Definitions", "definitions", Shape::Named),
    ("ExternalDocs", "externalDocs", Shape::Any),
    ("Example", "example", Shape::Any),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Shape::Any),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Shape::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Shape::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Shape::Any),
    ("XListType", "x-kubernetes-list-type", Shape::Any),
    ("XMapType", "x-kubernetes-map-type", Shape::Any),
    ("XValidations", "x-kubernetes-validations", Shape::Rules),
];

/// The name that upstream's internal type gives to a field of a schema.
pub fn name_of(field: &str) -> &str {
    SCHEMA.iter().find(|(_, known, _)| *known == field).map_or(field, |(name, ..)| name)
}

pub fn schema(schema: &Value) -> String {
    let fields =
        SCHEMA.iter().map(|(name, field, shape)| format!("\"{name}\":{}", shaped(&schema[*field], *shape)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn shaped(value: &Value, shape: Shape) -> String {
    let list = |items: &Vec<Value>, each: fn(&Value) -> String| {
        format!("[{}]", items.iter().map(each).collect::<Vec<_>>().join(","))
    };
    match (shape, value) {
        (Shape::Text, Value::Null) => "\"\"".to_owned(),
        (Shape::Flag, Value::Null) => "false".to_owned(),
        (_, Value::Null) => "null".to_owned(),
        (Shape::One, value) => schema(value),
        (Shape::Many, Value::Array(items)) => list(items, schema),
        (Shape::Named, Value::Object(fields)) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", json(&name.as_str().into()), schema(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        (Shape::Items, Value::Array(items)) => {
            format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(items, schema))
        }
        (Shape::Items, value) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        (Shape::Additional, Value::Bool(allows)) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
        (Shape::Additional, value) => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
        (Shape::Rules, Value::Array(items)) => {
            let parsed = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
            format!("[{}]", items.iter().map(|value| rule(&parsed(value))).collect::<Vec<_>>().join(","))
        }
        (_, value) => json(value),
    }
}

pub fn rule(rule: &Rule) -> String {
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        json(&rule.rule.as_str().into()),
        json(&rule.message.as_str().into()),
        json(&rule.message_expression.as_str().into()),
        json(&rule.reason.clone().into()),
        json(&rule.field_path.as_str().into()),
        json(&rule.optional_old_self.into()),
    )
}

/// What all versions have in common stands outside of them in upstream's internal form.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shared {
    pub schema: bool,
    pub subresources: bool,
    pub columns: bool,
    pub selectable: bool,
}

impl Shared {
    pub fn of(versions: &[Version]) -> Self {
        let Some(first) = versions.first() else { return Self::default() };
        let all = |same: fn(&Version, &Version) -> bool| versions.iter().all(|version| same(version, first));
        Self {
            schema: all(|one, other| one.schema == other.schema),
            subresources: all(|one, other| one.subresources == other.subresources),
            columns: all(|one, other| one.additional_printer_columns == other.additional_printer_columns),
            selectable: all(|one, other| one.selectable_fields == other.selectable_fields),
        }
    }
}

pub fn versions(versions: &[Version], shared: Shared) -> String {
    let all: Vec<String> = versions.iter().map(|one| version(one, shared)).collect();
    format!("[{}]", all.join(","))
}

fn version(version: &Version, shared: Shared) -> String {
    let null = || "null".to_owned();
    let validation = match version.schema.as_ref().filter(|_| !shared.schema) {
        None => null(),
        Some(validation) => {
            let inner = validation.schema.as_ref().map_or_else(null, schema);
            format!("{{\"OpenAPIV3Schema\":{inner}}}")
        }
    };
    let subresources = match version.subresources.as_ref().filter(|_| !shared.subresources) {
        None => null(),
        Some(subresources) => {
            let status = if subresources.status.is_some() { "{}" } else { "null" };
            let scale = subresources.scale.as_ref().map_or_else(null, |scale| {
                format!(
                    "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                    json(&scale.spec_replicas_path.as_str().into()),
                    json(&scale.status_replicas_path.as_str().into()),
                    json(&scale.label_selector_path.clone().into()),
                )
            });
            format!("{{\"Status\":{status},\"Scale\":{scale}}}")
        }
    };
    let listed = |all: Vec<String>, hidden: bool| match hidden || all.is_empty() {
        true => null(),
        false => format!("[{}]", all.join(",")),
    };
    let columns = version.additional_printer_columns.iter().map(|column| {
        format!(
            "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
            json(&column.name.as_str().into()),
            json(&column.type_.as_str().into()),
            json(&column.format.as_str().into()),
            json(&column.description.as_str().into()),
            column.priority,
            json(&column.json_path.as_str().into()),
        )
    });
    let selectable = version
        .selectable_fields
        .iter()
        .map(|field| format!("{{\"JSONPath\":{}}}", json(&field.json_path.as_str().into())));
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{validation},\"Subresources\":{subresources},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
        json(&version.name.as_str().into()),
        version.served,
        version.storage,
        version.deprecated,
        json(&version.deprecation_warning.clone().into()),
        listed(columns.collect(), shared.columns),
        listed(selectable.collect(), shared.selectable),
    )
}

/// JSON as Go writes it.
fn json(value: &Value) -> String {
    crate::field::go_json(value)
}
