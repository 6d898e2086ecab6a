//! Values: JSON as its schema reads it, and what expressions make.

use std::ops::Deref;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::escape::{escape, unescape};
use super::{members, numbers};
use crate::custom::schema::Schema;
use crate::custom::validate::duration;

#[derive(Debug, Clone)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    Time(Timestamp),
    Span(SignedDuration),
    /// In billionths.
    Quantity(i128),
    List(List<'a>),
    Map(Table<'a>),
    Optional(Option<Arc<Val<'a>>>),
    /// The name of a type.
    Type(&'static str),
    /// Content without a schema, of which only can be said whether it is the same.
    Raw(&'a Value),
}

/// Borrowed from the object, or made.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    Ref(&'a str),
    Own(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Ref(text) => text,
            Self::Own(text) => text,
        }
    }
}

#[derive(Debug, Clone)]
pub enum List<'a> {
    /// The schema is that of the list.
    Json(&'a [Value], &'a Schema),
    Own(Arc<Vec<Val<'a>>>),
    /// What was made of a set or a list by key, and stays one.
    Merged(Arc<Vec<Val<'a>>>, &'a Schema),
}

#[derive(Debug, Clone)]
pub enum Table<'a> {
    Json(&'a Map<String, Value>, &'a Schema),
    Own(Arc<Vec<(Val<'a>, Val<'a>)>>),
}

impl<'a> Val<'a> {
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Own(text.into()))
    }

    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::Own(Arc::new(items)))
    }

    /// JSON as its schema reads it. The error says what does not fit; validation has refused such values before.
    pub fn read(value: &'a Value, schema: &'a Schema) -> Result<Self, String> {
        let wrong = |wanted: &str| Err(format!("invalid data, expected {wanted}"));
        if value.is_null() {
            return Ok(Self::Null);
        }
        if schema.int_or_string {
            return Ok(match value {
                Value::String(text) => Self::Text(Text::Ref(text)),
                Value::Number(number) => {
                    number.as_i64().map_or_else(|| Self::Double(number.as_f64().unwrap_or(0.0)), Self::Int)
                }
                other => Self::Raw(other),
            });
        }
        match (schema.type_.as_str(), value) {
            ("object", Value::Object(fields)) => Ok(Self::Map(Table::Json(fields, schema))),
            ("object", _) => wrong("a map for the provided schema with type=object"),
            ("array", Value::Array(items)) => Ok(Self::List(List::Json(items, schema))),
            ("array", _) => wrong("an array for the provided schema with type=array"),
            ("string", Value::String(text)) => formatted(text, &schema.format),
            ("string", _) => wrong("string"),
            ("boolean", Value::Bool(flag)) => Ok(Self::Bool(*flag)),
            ("boolean", _) => wrong("bool"),
            ("number", Value::Number(number)) => Ok(Self::Double(number.as_f64().unwrap_or(0.0))),
            ("number", _) => wrong("float"),
            ("integer", Value::Number(number)) => {
                number.as_i64().map_or_else(|| wrong("int"), |n| Ok(Self::Int(n)))
            }
            ("integer", _) => wrong("int"),
            _ => Ok(Self::Raw(value)),
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Time(_) => "google.protobuf.Timestamp",
            Self::Span(_) => "google.protobuf.Duration",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Raw(_) => "unknown",
        }
    }

    /// Roughly how much there is to look at.
    pub fn weight(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.len() / 10,
            Self::Bytes(bytes) => bytes.len() / 10,
            Self::List(list) => list.len(),
            Self::Map(table) => table.len(),
            _ => 0,
        };
        size as u64
    }

    /// Whether it is what a value of its type is before anybody sets it. Lists and maps in the object are set.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Bool(false) | Self::Int(0) | Self::Uint(0) | Self::Optional(None) => true,
            Self::Double(n) => *n == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Span(span) => span.is_zero(),
            Self::List(List::Own(items)) => items.is_empty(),
            Self::Map(Table::Own(entries)) => entries.is_empty(),
            _ => false,
        }
    }

    /// What it took to make the value from what the object says, where that is more than to point at it.
    pub fn decoded(&self) -> u64 {
        if matches!(self, Self::Bytes(_)) { self.weight() } else { 0 }
    }

    /// Equality of the language. Numbers are compared by value; `spent` counts what was looked at.
    pub fn equals(&self, other: &Self, spent: &mut u64) -> bool {
        *spent = spent.saturating_add(1 + self.weight().min(other.weight()));
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => **one == **other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Time(one), Self::Time(other)) => one == other,
            (Self::Span(one), Self::Span(other)) => one == other,
            (Self::Quantity(one), Self::Quantity(other)) => one == other,
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::List(one), Self::List(other)) => one.equals(other, spent),
            (Self::Map(one), Self::Map(other)) => one.equals(other, spent),
            (Self::Optional(one), Self::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => one.equals(other, spent),
                (one, other) => one.is_none() == other.is_none(),
            },
            (Self::Raw(one), Self::Raw(other)) => same_json(one, other, spent),
            (one, other) => numbers::compare(one, other).is_some_and(std::cmp::Ordering::is_eq),
        }
    }
}

fn formatted<'a>(text: &'a str, format: &str) -> Result<Val<'a>, String> {
    match format {
        "date" => numbers::timestamp(&format!("{text}T00:00:00Z")).map(Val::Time),
        "date-time" => numbers::timestamp(text).map(Val::Time),
        "duration" => {
            let span = duration(text).ok_or_else(|| format!("Invalid duration formatted string {text}"))?;
            Ok(Val::Span(span))
        }
        "byte" => {
            let bytes = STANDARD
                .decode(text)
                .map_err(|why| format!("Invalid byte formatted string {text}: {why}"))?;
            Ok(Val::Bytes(bytes.into()))
        }
        _ => Ok(Val::Text(Text::Ref(text))),
    }
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Own(items) | Self::Merged(items, _) => items.len(),
        }
    }

    pub fn schema(&self) -> Option<&'a Schema> {
        match self {
            Self::Json(_, schema) | Self::Merged(_, schema) => Some(schema),
            Self::Own(_) => None,
        }
    }

    pub fn get(&self, index: usize) -> Option<Result<Val<'a>, String>> {
        match self {
            Self::Json(items, schema) => Some(element(items.get(index)?, schema)),
            Self::Own(items) | Self::Merged(items, _) => items.get(index).cloned().map(Ok),
        }
    }

    pub fn all(&self) -> Result<Vec<Val<'a>>, String> {
        (0..self.len()).filter_map(|index| self.get(index)).collect()
    }

    /// What the left one says about order counts: that of sets and of lists by key does not matter.
    fn equals(&self, other: &Self, spent: &mut u64) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if let Some(kind) = members::kind(self) {
            return self
                .all()
                .is_ok_and(|one| other.all().is_ok_and(|other| members::same(&kind, &one, &other, spent)));
        }
        (0..self.len()).all(|index| match (self.get(index), other.get(index)) {
            (Some(one), Some(other)) => same(one, other, spent),
            _ => false,
        })
    }
}

/// Content without a schema, each part of it counted.
fn same_json(one: &Value, other: &Value, spent: &mut u64) -> bool {
    *spent = spent.saturating_add(1);
    match (one, other) {
        (Value::String(one), Value::String(other)) => {
            *spent = spent.saturating_add(one.len().min(other.len()) as u64 / 10);
            one == other
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_json(one, other, spent))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value)| other.get(key).is_some_and(|theirs| same_json(value, theirs, spent));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

fn element<'a>(item: &'a Value, schema: &'a Schema) -> Result<Val<'a>, String> {
    match schema.items() {
        Some(items) => Val::read(item, items),
        None => Ok(Val::Raw(item)),
    }
}

fn same(one: Result<Val<'_>, String>, other: Result<Val<'_>, String>, spent: &mut u64) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one.equals(&other, spent),
        _ => false,
    }
}

impl<'a> Table<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Json(fields, _) => fields.len(),
            Self::Own(entries) => entries.len(),
        }
    }

    /// What stands under a key. A null field of an object is an absent one.
    pub fn get(&self, key: &Val<'a>, spent: &mut u64) -> Option<Result<Val<'a>, String>> {
        match self {
            Self::Json(fields, schema) => {
                let Val::Text(key) = key else { return None };
                field(fields, schema, key)
            }
            Self::Own(entries) => {
                let found = entries.iter().find(|(known, _)| known.equals(key, spent));
                found.map(|(_, value)| Ok(value.clone()))
            }
        }
    }

    pub fn entries(&self) -> Result<Vec<(Val<'a>, Val<'a>)>, String> {
        match self {
            Self::Json(fields, schema) => {
                let is_object = !schema.properties.is_empty();
                let named = fields.iter().filter_map(|(key, value)| {
                    let below = schema.member(key)?;
                    let name =
                        if is_object { escape(key).unwrap_or_else(|| key.clone()) } else { key.clone() };
                    Some(Val::read(value, below).map(|value| (Val::text(name), value)))
                });
                named.collect()
            }
            Self::Own(entries) => Ok(entries.to_vec()),
        }
    }

    fn equals(&self, other: &Self, spent: &mut u64) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match (self, other) {
            (Self::Json(one, schema), Self::Json(other, _)) => one.iter().all(|(key, value)| {
                let Some(theirs) = other.get(key) else { return false };
                match schema.member(key) {
                    Some(below) => same(Val::read(value, below), Val::read(theirs, below), spent),
                    None => same_json(value, theirs, spent),
                }
            }),
            (one, other) => one.entries().is_ok_and(|entries| {
                entries.iter().all(|(key, value)| {
                    let theirs = other.get(key, spent);
                    theirs.is_some_and(|theirs| same(Ok(value.clone()), theirs, spent))
                })
            }),
        }
    }
}

fn field<'a>(
    fields: &'a Map<String, Value>,
    schema: &'a Schema,
    name: &str,
) -> Option<Result<Val<'a>, String>> {
    let is_object = !schema.properties.is_empty();
    let key = if is_object { unescape(name)? } else { name.to_owned() };
    let value = fields.get(&key)?;
    if is_object && value.is_null() {
        return None;
    }
    Some(Val::read(value, schema.member(&key)?))
}
