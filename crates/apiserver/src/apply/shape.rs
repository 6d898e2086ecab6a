//! How a value divides into parts that managers own separately.

use serde_json::{Map, Value};

use super::set::named;
use crate::schema::{Field, Ownership, Schema, Shape, TypeId};

/// The schema of one value.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    pub form: Form<'a>,
    /// One value, whatever is in it.
    atomic: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Form<'a> {
    /// A message of this build. A root also says what it is.
    Message {
        id: TypeId,
        root: bool,
    },
    /// An object whose fields a client declared.
    Custom {
        schema: &'a Value,
        root: bool,
    },
    /// Any keys; the values share a schema.
    Map(Element<'a>),
    List {
        keys: Keys<'a>,
        element: Element<'a>,
    },
    Scalar(Scalar),
    /// Nothing is known: objects divide by field, lists are one value.
    Deduced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Text,
    Number,
    Bool,
    Any,
}

/// The schema of what is in a list or map.
#[derive(Debug, Clone, Copy)]
pub enum Element<'a> {
    Shape(&'static Shape),
    Schema(&'a Value),
    Unknown,
}

/// What tells the elements of a list apart; none for a set. One of the two is empty.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    fixed: &'a [Box<str>],
    declared: &'a [Value],
}

impl<'a> Keys<'a> {
    fn names(self) -> impl Iterator<Item = &'a str> {
        let fixed = self.fixed.iter().map(AsRef::as_ref);
        fixed.chain(self.declared.iter().filter_map(Value::as_str))
    }

    fn is_empty(self) -> bool {
        self.fixed.is_empty() && self.declared.is_empty()
    }

    /// A key that is left out tells apart too, as long as another one is there.
    fn name(self, fields: &Map<String, Value>, element: Element<'_>) -> Result<String, String> {
        let given = |key: &str| fields.get(key).filter(|value| !value.is_null()).cloned();
        let found = |key: &'a str| {
            given(key).or_else(|| default_key(element, key)).map(|value| (key.to_owned(), value))
        };
        let found: Map<String, Value> = self.names().filter_map(found).collect();
        if !found.is_empty() {
            return Ok(named(found));
        }
        let keys: Vec<String> = self.names().map(|key| format!("{key:?}")).collect();
        Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ))
    }
}

impl<'a> Element<'a> {
    fn kind(self) -> Kind<'a> {
        match self {
            Self::Shape(shape) => Kind::of_shape(shape),
            Self::Schema(schema) => Kind::of_schema(schema),
            Self::Unknown => Kind::DEDUCED,
        }
    }
}

impl<'a> Kind<'a> {
    pub const DEDUCED: Self = Self { form: Form::Deduced, atomic: false };

    const fn whole(form: Form<'a>) -> Self {
        Self { form, atomic: true }
    }

    const fn divided(form: Form<'a>) -> Self {
        Self { form, atomic: false }
    }

    /// `custom` is the schema of a kind that a client defined.
    pub fn root(api_version: &str, kind: &str, custom: Option<&'a Value>) -> Self {
        let known = Schema::get().kind(api_version, kind).map(|id| Form::Message { id, root: true });
        let custom = || custom.map(|schema| Form::Custom { schema, root: true });
        known.or_else(custom).map_or(Self::DEDUCED, Self::divided)
    }

    /// Whether this build knows nothing of a kind.
    pub fn is_custom(api_version: &str, kind: &str) -> bool {
        Schema::get().kind(api_version, kind).is_none()
    }

    fn of_field(field: &'static Field) -> Self {
        let list = |keys: &'a [Box<str>], element: &'static Shape| {
            let keys = Keys { fixed: keys, declared: &[] };
            Self::divided(Form::List { keys, element: Element::Shape(element) })
        };
        match (&field.ownership, &field.shape) {
            (Ownership::Atomic, shape) => Self { atomic: true, ..Self::of_shape(shape) },
            (Ownership::Granular, shape) => Self { atomic: false, ..Self::of_shape(shape) },
            (Ownership::Set, Shape::List(element)) => list(&[], element),
            (Ownership::Map(keys), Shape::List(element)) => list(keys, element),
            (_, shape) => Self::of_shape(shape),
        }
    }

    /// Lists of which nothing is said are one value.
    fn of_shape(shape: &'static Shape) -> Self {
        let none = Keys { fixed: &[], declared: &[] };
        match shape {
            Shape::Message(id) => {
                let atomic = Schema::get().of(*id).atomic;
                Self { form: Form::Message { id: *id, root: false }, atomic }
            }
            Shape::Map(element) => Self::divided(Form::Map(Element::Shape(element))),
            Shape::List(element) | Shape::WrappedList(element) => {
                Self::whole(Form::List { keys: none, element: Element::Shape(element) })
            }
            Shape::String | Shape::Bytes | Shape::Duration => Self::whole(Form::Scalar(Scalar::Text)),
            Shape::Bool => Self::whole(Form::Scalar(Scalar::Bool)),
            Shape::Int32 | Shape::Int64 | Shape::Float64 => Self::whole(Form::Scalar(Scalar::Number)),
            Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime => {
                Self::whole(Form::Scalar(Scalar::Any))
            }
            Shape::FieldsV1 | Shape::RawExtension => Self::DEDUCED,
        }
    }

    /// A schema that a client wrote, with upstream's words for lists and maps.
    fn of_schema(schema: &'a Value) -> Self {
        let element = |schema: Option<&'a Value>| schema.map_or(Element::Unknown, Element::Schema);
        let atomic = |key: &str| schema[key] == "atomic";
        match schema["type"].as_str().unwrap_or_default() {
            "object" => {
                let values = schema.get("additionalProperties").filter(|values| values.is_object());
                let declared = schema["properties"].is_object();
                let form = match (declared, values) {
                    (false, Some(values)) => Form::Map(Element::Schema(values)),
                    (false, None) if preserves(schema) => Form::Deduced,
                    _ => Form::Custom { schema, root: false },
                };
                Self { form, atomic: atomic("x-kubernetes-map-type") }
            }
            "array" => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array();
                let form = |declared| Form::List {
                    keys: Keys { fixed: &[], declared },
                    element: element(schema.get("items")),
                };
                match (schema["x-kubernetes-list-type"].as_str().unwrap_or_default(), keys) {
                    ("map", Some(keys)) => Self::divided(form(keys)),
                    ("set", _) => Self::divided(form(&[])),
                    _ => Self::whole(form(&[])),
                }
            }
            "string" => Self::whole(Form::Scalar(Scalar::Text)),
            "integer" | "number" => Self::whole(Form::Scalar(Scalar::Number)),
            "boolean" => Self::whole(Form::Scalar(Scalar::Bool)),
            _ if schema["x-kubernetes-int-or-string"] == true => Self::whole(Form::Scalar(Scalar::Any)),
            _ => Self::DEDUCED,
        }
    }

    /// The schema of what stands under a field or key; `None` if nothing may stand there.
    pub fn member(self, name: &str) -> Option<Self> {
        match self.form {
            Form::Message { id, root } => {
                let schema = Schema::get();
                let declared = schema.field(schema.of(id), name).map(Self::of_field);
                // The schema leaves out what every kind has.
                declared.or_else(|| (root && matches!(name, "apiVersion" | "kind")).then(Self::text))
            }
            Form::Custom { root: true, .. } if name == "metadata" => Some(metadata()),
            Form::Custom { schema, root } => {
                let declared = schema["properties"].get(name);
                let known = declared.map(Self::of_schema);
                let typed = root || schema["x-kubernetes-embedded-resource"] == true;
                let own = || (typed && matches!(name, "apiVersion" | "kind")).then(Self::text);
                known.or_else(own).or_else(|| preserves(schema).then_some(Self::DEDUCED))
            }
            Form::Map(element) => Some(element.kind()),
            Form::Deduced => Some(Self::DEDUCED),
            Form::List { .. } | Form::Scalar(_) => None,
        }
    }

    fn text() -> Self {
        Self::whole(Form::Scalar(Scalar::Text))
    }

    /// Whether this is a field of its own and not merely a key of a map.
    pub fn declares(self, name: &str) -> bool {
        match self.form {
            Form::Message { .. } => self.member(name).is_some(),
            Form::Custom { schema, root } => {
                schema["properties"].get(name).is_some() || (root && self.member(name).is_some())
            }
            Form::Map(_) | Form::List { .. } | Form::Scalar(_) | Form::Deduced => false,
        }
    }

    pub fn field(self, name: &str) -> Option<&'static Field> {
        match self.form {
            Form::Message { id, .. } => Schema::get().field(Schema::get().of(id), name),
            _ => None,
        }
    }

    /// Whether an object divides into members here.
    pub fn divides_objects(self) -> bool {
        let object =
            matches!(self.form, Form::Message { .. } | Form::Custom { .. } | Form::Map(_) | Form::Deduced);
        object && !self.atomic
    }

    /// Whether a list divides into elements here.
    pub fn divides_lists(self) -> bool {
        matches!(self.form, Form::List { .. }) && !self.atomic
    }

    pub fn element(self) -> Self {
        match self.form {
            Form::List { element, .. } => element.kind(),
            _ => Self::DEDUCED,
        }
    }

    /// What an element of a divided list is called in a path, or why it has no name.
    pub fn name_element(self, value: &Value) -> Result<String, String> {
        const SET: &str = "associative list without keys has an element that's";
        let Form::List { keys, element } = self.form else { return Ok(String::new()) };
        match value {
            Value::Object(fields) if !keys.is_empty() => keys.name(fields, element),
            Value::Null if !keys.is_empty() => {
                Err("associative list with keys may not have a null element".into())
            }
            _ if !keys.is_empty() => Err("associative list with keys may not have non-map elements".into()),
            Value::Object(_) => Err(format!("{SET} a map type")),
            Value::Null => Err(format!("{SET} an explicit null")),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            scalar => Ok(format!("v:{scalar}")),
        }
    }
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// The metadata of every object.
fn metadata() -> Kind<'static> {
    let schema = Schema::get();
    let any = schema.kind("meta.k8s.io/v1", "PartialObjectMetadata");
    let field = any.and_then(|id| schema.field(schema.of(id), "metadata"));
    field.map_or(Kind::DEDUCED, Kind::of_field)
}

/// Keys that are filled in when they are left out.
fn default_key(element: Element<'_>, key: &str) -> Option<Value> {
    let id = match element {
        Element::Schema(schema) => return schema["properties"][key].get("default").cloned(),
        Element::Shape(Shape::Message(id)) => *id,
        Element::Shape(_) | Element::Unknown => return None,
    };
    let schema = Schema::get();
    let of = schema.of(id);
    match (of.name.rsplit('.').next().unwrap_or_default(), key) {
        ("ContainerPort" | "ServicePort", "protocol") => return Some("TCP".into()),
        ("LocalObjectReference", "name") => return Some("".into()),
        _ => {}
    }
    let field = schema.field(of, key).filter(|field| !field.omit_empty && !field.pointer)?;
    match field.shape {
        Shape::String => Some("".into()),
        Shape::Int32 | Shape::Int64 => Some(0.into()),
        _ => None,
    }
}
