//! What an `openAPIV3Schema` says, as one plain tree.
//!
//! The schema of a definition that was accepted is structural: the fields that make up an object stand outside of
//! `allOf`, `anyOf`, `oneOf` and `not`, and inside of these there are only conditions on values.

mod nodes;
mod parse;
mod pattern;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

pub use nodes::{Role, with_metadata};
pub use pattern::{Pattern, compile};

/// Fields every object has, whether its schema says so or not.
pub const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// One node of a schema. What is absent is empty, zero or false.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    pub type_: String,
    pub format: String,
    /// Whether there is a description, and a title; what they say does not matter here.
    pub described: bool,
    pub titled: bool,
    pub nullable: bool,
    pub default: Option<Value>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Pattern,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub enum_: Vec<Value>,
    pub required: Vec<String>,
    pub items: Option<Items>,
    pub properties: BTreeMap<String, Schema>,
    pub additional_properties: Option<Additional>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    pub preserve_unknown_fields: Option<bool>,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<String>,
    pub list_map_keys: Vec<String>,
    pub map_type: Option<String>,
    pub validations: Vec<Rule>,

    // What OpenAPI has and custom resources do not: read only to be refused.
    pub id: String,
    pub reference: Option<String>,
    pub dialect: String,
    pub definitions: bool,
    pub pattern_properties: bool,
    /// Whether there are any, if the field is there.
    pub dependencies: Option<bool>,
    pub additional_items: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    One(Box<Schema>),
    /// Allowed by OpenAPI, refused here.
    Each(Vec<Schema>),
}

/// What stands under keys that `properties` does not name.
#[derive(Debug, Clone, PartialEq)]
pub enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

/// One expression of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl Schema {
    pub fn items(&self) -> Option<&Self> {
        match &self.items {
            Some(Items::One(schema)) => Some(schema),
            _ => None,
        }
    }

    pub fn additional(&self) -> Option<&Self> {
        match &self.additional_properties {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schema of what stands under a key.
    pub fn member(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or_else(|| self.additional())
    }

    pub fn preserves_unknown(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }

    pub fn is_list(&self, type_: &str) -> bool {
        self.list_type.as_deref() == Some(type_)
    }

    /// The types that a value may have: two for int-or-string, none where anything goes.
    pub fn types(&self) -> &[&str] {
        const ALL: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
        if self.int_or_string {
            return &["integer", "string"];
        }
        ALL.iter().position(|known| *known == self.type_).map_or(&[], |at| &ALL[at..=at])
    }

    /// Whether there is an expression here or below.
    pub fn has_rules(&self) -> bool {
        !self.validations.is_empty()
            || self.properties.values().any(Self::has_rules)
            || self.items().is_some_and(Self::has_rules)
            || self.additional().is_some_and(Self::has_rules)
    }
}
