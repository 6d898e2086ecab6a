//! What the checker knows of a value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::escape::escape;
use crate::custom::schema::Schema;

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::enum_variant_names, reason = "the type of a type is CEL\'s word for it")]
pub enum Type {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Span,
    Quantity,
    /// Anything; checked when it is used.
    Dyn,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    /// Fields by the names that expressions give them.
    Object(Arc<BTreeMap<String, Type>>),
    Optional(Box<Type>),
    /// A type as a value.
    Type(Box<Type>),
    /// What stands for any type in a signature.
    Param(char),
    /// Something is wrong with it already; nothing more is said.
    Wrong,
}

impl Type {
    /// `None` for values that expressions cannot look at. Whole objects have their metadata in the schema.
    pub fn of(schema: &Schema) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.type_.as_str() {
            "array" => Self::list(Self::of(schema.items()?)?),
            "object" => match schema.additional() {
                Some(values) => Self::Map(Box::new(Self::Text), Box::new(Self::of(values)?)),
                None => {
                    let fields = schema.properties.iter();
                    let known =
                        fields.filter_map(|(name, property)| Some((escape(name)?, Self::of(property)?)));
                    Self::Object(Arc::new(known.collect()))
                }
            },
            "string" => match schema.format.as_str() {
                "byte" => Self::Bytes,
                "duration" => Self::Span,
                "date" | "date-time" => Self::Time,
                _ => Self::Text,
            },
            "boolean" => Self::Bool,
            "number" => Self::Double,
            "integer" => Self::Int,
            _ => return None,
        })
    }

    pub fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    pub fn is_loose(&self) -> bool {
        matches!(self, Self::Dyn | Self::Wrong)
    }

    /// Whether a value of one of the two types may stand where the other is expected.
    pub fn agrees(&self, other: &Self) -> bool {
        if self.is_loose() || other.is_loose() {
            return true;
        }
        match (self, other) {
            (Self::List(one), Self::List(other)) | (Self::Optional(one), Self::Optional(other)) => {
                one.agrees(other)
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.agrees(other_key) && value.agrees(other_value)
            }
            (Self::Type(_), Self::Type(_)) => true,
            _ => self == other,
        }
    }

    /// What two agreeing types have in common.
    pub fn joined(self, other: Self) -> Self {
        if self.is_loose() { other } else { self }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Time => f.write_str("timestamp"),
            Self::Span => f.write_str("duration"),
            Self::Quantity => f.write_str("kubernetes.Quantity"),
            Self::Dyn => f.write_str("dyn"),
            Self::Wrong => f.write_str("!error!"),
            Self::Object(_) => f.write_str("object"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}
