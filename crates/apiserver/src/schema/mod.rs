//! What upstream's types say about the fields of each kind: JSON names, protobuf numbers, merge keys, and who may
//! own what in server-side apply. Taken from its Go modules by `make schema`.

mod load;

use std::collections::HashMap;
use std::sync::LazyLock;

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
    by_name: HashMap<Box<str>, Place>,
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
}

impl Schema {
    /// The schema of this build. Read on first use.
    pub fn get() -> &'static Self {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
            load::load(include_str!("../../schema/kubernetes.json")).unwrap_or_else(|error| {
                // The file is part of the program, and a test reads it.
                tracing::error!(%error, "the built-in schema is unreadable");
                Schema { types: Vec::new(), kinds: HashMap::new() }
            })
        });
        &SCHEMA
    }

    pub fn kind(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        self.kinds.get(format!("{api_version} {kind}").as_str()).copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_schema_knows_its_kinds() {
        let schema = load::load(include_str!("../../schema/kubernetes.json")).expect("readable");
        for (api_version, kind) in [("v1", "Pod"), ("v1", "PodList"), ("storage.k8s.io/v1", "CSINode")] {
            assert!(schema.kind(api_version, kind).is_some(), "{api_version} {kind}");
        }
        assert_eq!(schema.kind("v1", "Nonsense"), None);
    }

    #[test]
    fn fields_are_found_by_their_json_names() {
        let schema = Schema::get();
        let claim = schema.of(schema.kind("v1", "PersistentVolumeClaim").expect("known"));
        let spec = schema.field(claim, "spec").expect("has a spec");
        let Shape::Message(spec) = spec.shape else { panic!("a message") };
        let modes = schema.field(schema.of(spec), "accessModes").expect("has modes");
        assert_eq!((modes.number, &modes.ownership), (1, &Ownership::Atomic));
        assert!(schema.field(schema.of(spec), "accessmodes").is_none());
    }

    /// `hostPath` is a field of a volume in JSON, and of its source in protobuf.
    #[test]
    fn inlined_messages_lend_their_fields() {
        let schema = Schema::get();
        let pod = schema.of(schema.kind("v1", "Pod").expect("known"));
        let Shape::Message(spec) = schema.field(pod, "spec").expect("spec").shape else {
            panic!("a message")
        };
        let volumes = schema.field(schema.of(spec), "volumes").expect("volumes");
        assert_eq!(volumes.merge, Merge { elements: true, key: "name".into(), retain_keys: true });
        let Shape::List(volume) = &volumes.shape else { panic!("a list") };
        let Shape::Message(volume) = **volume else { panic!("of messages") };
        assert_eq!(schema.field(schema.of(volume), "hostPath").expect("inlined").number, 1);
    }
}
