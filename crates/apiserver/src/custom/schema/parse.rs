//! Reading a schema. By hand, because a schema may nest as deep as a body: derived code takes more of the stack at each
//! level than there is.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Additional, Items, Pattern, Rule, Schema};

impl Schema {
    /// `None` if this is no schema at all. What has the wrong type counts as absent: types were checked before.
    pub fn parse(json: &Value) -> Option<Self> {
        let fields = json.as_object()?;
        let mut schema = Self::default();
        read_limits(fields, &mut schema);
        read_extensions(fields, &mut schema);
        read_unsupported(fields, &mut schema);
        read_parts(fields, &mut schema);
        Some(schema)
    }

    fn boxed(json: &Value) -> Option<Box<Self>> {
        Self::parse(json).map(Box::new)
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> String {
    fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn int(fields: &Map<String, Value>, name: &str) -> Option<i64> {
    fields.get(name).and_then(Value::as_i64)
}

fn float(fields: &Map<String, Value>, name: &str) -> Option<f64> {
    fields.get(name).and_then(Value::as_f64)
}

fn texts(fields: &Map<String, Value>, name: &str) -> Vec<String> {
    let items = fields.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn read_limits(fields: &Map<String, Value>, schema: &mut Schema) {
    schema.type_ = text(fields, "type");
    schema.format = text(fields, "format");
    schema.described = !text(fields, "description").is_empty();
    schema.titled = !text(fields, "title").is_empty();
    schema.nullable = flag(fields, "nullable");
    schema.default = fields.get("default").filter(|value| !value.is_null()).cloned();
    schema.maximum = float(fields, "maximum");
    schema.exclusive_maximum = flag(fields, "exclusiveMaximum");
    schema.minimum = float(fields, "minimum");
    schema.exclusive_minimum = flag(fields, "exclusiveMinimum");
    schema.multiple_of = float(fields, "multipleOf");
    schema.max_length = int(fields, "maxLength");
    schema.min_length = int(fields, "minLength");
    schema.pattern = Pattern::from(text(fields, "pattern"));
    schema.max_items = int(fields, "maxItems");
    schema.min_items = int(fields, "minItems");
    schema.unique_items = flag(fields, "uniqueItems");
    schema.max_properties = int(fields, "maxProperties");
    schema.min_properties = int(fields, "minProperties");
    schema.enum_ = fields.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
    schema.required = texts(fields, "required");
}

fn read_extensions(fields: &Map<String, Value>, schema: &mut Schema) {
    let word = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    schema.preserve_unknown_fields =
        fields.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool);
    schema.embedded_resource = flag(fields, "x-kubernetes-embedded-resource");
    schema.int_or_string = flag(fields, "x-kubernetes-int-or-string");
    schema.list_type = word("x-kubernetes-list-type");
    schema.list_map_keys = texts(fields, "x-kubernetes-list-map-keys");
    schema.map_type = word("x-kubernetes-map-type");
    let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    schema.validations = rules.map(|rule| Rule::deserialize(rule).unwrap_or_default()).collect();
}

fn read_unsupported(fields: &Map<String, Value>, schema: &mut Schema) {
    schema.id = text(fields, "id");
    schema.dialect = text(fields, "$schema");
    schema.reference = fields.get("$ref").and_then(Value::as_str).map(str::to_owned);
    schema.dependencies = fields.get("dependencies").and_then(Value::as_object).map(|all| !all.is_empty());
    schema.additional_items = fields.contains_key("additionalItems");
    let has = |name: &str| fields.get(name).and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    schema.definitions = has("definitions");
    schema.pattern_properties = has("patternProperties");
}

fn read_parts(fields: &Map<String, Value>, schema: &mut Schema) {
    schema.not = fields.get("not").and_then(Schema::boxed);
    schema.all_of = list(fields.get("allOf"));
    schema.any_of = list(fields.get("anyOf"));
    schema.one_of = list(fields.get("oneOf"));
    schema.items = match fields.get("items") {
        Some(Value::Array(_)) => Some(Items::Each(list(fields.get("items")))),
        Some(items) => Schema::boxed(items).map(Items::One),
        None => None,
    };
    schema.additional_properties = match fields.get("additionalProperties") {
        Some(Value::Bool(allowed)) => Some(Additional::Allowed(*allowed)),
        Some(values) => Schema::boxed(values).map(Additional::Schema),
        None => None,
    };
    schema.properties = named(fields.get("properties"));
}

/// Loops, here and below: chains of iterators would hold a schema in each of their frames, at each level.
fn list(value: Option<&Value>) -> Vec<Schema> {
    let mut all = Vec::new();
    for schema in value.and_then(Value::as_array).into_iter().flatten() {
        all.extend(Schema::parse(schema));
    }
    all
}

fn named(value: Option<&Value>) -> BTreeMap<String, Schema> {
    let mut all = BTreeMap::new();
    for (name, schema) in value.and_then(Value::as_object).into_iter().flatten() {
        if let Some(schema) = Schema::parse(schema) {
            all.insert(name.clone(), schema);
        }
    }
    all
}
