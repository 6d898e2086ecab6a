//! What upstream's types say about the fields of each kind: JSON names, protobuf numbers, merge keys, and who may
//! own what in server-side apply. Taken from its Go modules by `make schema`.

mod accept;
mod go;
mod internal;
mod load;
mod render;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

pub use accept::Accepted;

/// Index of a message type in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(u32);

/// The fields of a message.
#[derive(Debug)]
pub struct Type {
    /// As in OpenAPI, e.g. `io.k8s.api.core.v1.PodSpec`.
    pub name: Box<str>,
    pub fields: Vec<Field>,
    /// Server-side apply treats it as one value.
    pub atomic: bool,
    /// Has `apiVersion` and `kind`, which are not among its fields.
    is_kind: bool,
    by_name: HashMap<Box<str>, Place>,
}

impl Type {
    /// The field that JSON calls `name`, unless it belongs to an inlined message.
    pub fn own(&self, name: &str) -> Option<&Field> {
        let place = self.by_name.get(name).filter(|place| !place.inline)?;
        self.fields.get(place.field as usize)
    }
}

/// Where a JSON field stands: in the message itself, or in one that JSON does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    field: u32,
    inline: bool,
}

#[derive(Debug)]
pub struct Field {
    pub name: Box<str>,
    /// Zero where protobuf does not carry the field.
    pub number: u32,
    pub shape: Shape,
    /// The fields of its message stand among those of its owner in JSON, while protobuf nests them.
    pub inline: bool,
    /// An empty value is left out of JSON.
    pub omit_empty: bool,
    /// An empty struct or time is left out of JSON as well.
    pub omit_zero: bool,
    /// What Go calls the field.
    pub title: Box<str>,
    /// What Go calls the type, where the shape alone does not say it.
    pub go: Box<str>,
    /// Presence counts, even with an empty value.
    pub pointer: bool,
    pub merge: Merge,
    pub ownership: Ownership,
}

/// How strategic merge patch treats a list or object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merge {
    /// Elements are matched instead of the list being replaced.
    pub elements: bool,
    /// The field that tells elements apart; empty for lists of primitives.
    pub key: Box<str>,
    /// Fields that the patch does not name are dropped.
    pub retain_keys: bool,
}

/// How server-side apply divides a value among managers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ownership {
    /// By the shape: objects by field, maps by key, lists as a whole.
    #[default]
    Shape,
    Atomic,
    /// By field, although the type alone would be one value.
    Granular,
    Set,
    Map(Vec<Box<str>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    FieldsV1,
    RawExtension,
    Message(TypeId),
    List(Box<Shape>),
    /// A list that protobuf wraps in a message of its own.
    WrappedList(Box<Shape>),
    Map(Box<Shape>),
}

#[derive(Debug)]
pub struct Schema {
    types: Vec<Type>,
    /// By `apiVersion kind`.
    kinds: HashMap<Box<str>, TypeId>,
    /// By name, without what all begin with.
    named: HashMap<Box<str>, TypeId>,
}

/// What the names of upstream's types begin with.
const API: &str = "io.k8s.api.";

impl Schema {
    /// The schema of this build. Read on first use.
    pub fn get() -> &'static Self {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
            load::load(include_str!("../../schema/kubernetes.json")).unwrap_or_else(|error| {
                // The file is part of the program, and a test reads it.
                tracing::error!(%error, "the built-in schema is unreadable");
                Schema { types: Vec::new(), kinds: HashMap::new(), named: HashMap::new() }
            })
        });
        &SCHEMA
    }

    pub fn kind(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        self.kinds.get(format!("{api_version} {kind}").as_str()).copied()
    }

    /// The type that OpenAPI calls `name`.
    pub fn named(&self, name: &str) -> Option<&Type> {
        // The file lists them by name.
        let found = self.types.binary_search_by(|known| (*known.name).cmp(name));
        found.ok().map(|position| &self.types[position])
    }

    /// A value of one of upstream's types, e.g. `core.v1.Taint`, as Go prints it in complaints.
    pub fn go_text(&self, type_name: &str, value: &Value) -> String {
        self.named.get(type_name).map_or_else(|| value.to_string(), |id| go::compact(self, *id, value))
    }

    /// The same with a line for each field, as Go compares them.
    pub fn go_lines(&self, type_name: &str, value: &Value) -> Vec<String> {
        self.named.get(type_name).map_or_else(|| vec![value.to_string()], |id| go::lines(self, *id, value))
    }

    /// Reads an object of a type as Go's decoder does; the error is its text.
    pub fn accept(&self, root: TypeId, input: &Value) -> Result<Accepted, String> {
        accept::accept(self, root, input)
    }

    /// Writes an object of a type as Go's encoder does.
    pub fn render(&self, root: TypeId, object: &mut Value) {
        render::render(self, root, object);
    }

    pub fn of(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// The field at the end of a path of JSON names from a root, without positions in lists.
    pub fn at(&self, root: TypeId, path: &[&str]) -> Option<&Field> {
        let (mut of, mut found) = (self.of(root), None);
        let mut names = path.iter();
        while let Some(name) = names.next() {
            let field = self.field(of, name)?;
            found = Some(field);
            let mut shape = &field.shape;
            loop {
                match shape {
                    Shape::List(element) | Shape::WrappedList(element) => shape = element,
                    // Keys of a map are no fields.
                    Shape::Map(element) => match names.next() {
                        Some(_) => shape = element,
                        None => return found,
                    },
                    Shape::Message(inner) => break of = self.of(*inner),
                    _ => return names.next().is_none().then_some(field),
                }
            }
        }
        found
    }

    /// The field of a message that JSON calls `name`.
    pub fn field<'a>(&'a self, of: &'a Type, name: &str) -> Option<&'a Field> {
        let place = of.by_name.get(name)?;
        let field = &of.fields[place.field as usize];
        match (&field.shape, place.inline) {
            (Shape::Message(inner), true) => self.field(self.of(*inner), name),
            _ => Some(field),
        }
    }
}
