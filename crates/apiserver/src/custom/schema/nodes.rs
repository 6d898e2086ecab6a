//! Walking through a schema.

use std::borrow::Cow;

use super::{Additional, Items, Schema};

/// Where a node stands below its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role<'a> {
    Property(&'a str),
    Items,
    Additional,
    AllOf(usize),
    AnyOf(usize),
    OneOf(usize),
    Not,
}

impl Role<'_> {
    /// The path of the child of a node at `path`.
    pub fn below(&self, path: &str) -> String {
        match self {
            Self::Property(name) => format!("{path}.properties[{name}]"),
            Self::Items => format!("{path}.items"),
            Self::Additional => format!("{path}.additionalProperties"),
            Self::AllOf(index) => format!("{path}.allOf[{index}]"),
            Self::AnyOf(index) => format!("{path}.anyOf[{index}]"),
            Self::OneOf(index) => format!("{path}.oneOf[{index}]"),
            Self::Not => format!("{path}.not"),
        }
    }

    /// Whether the child only adds conditions to the values of its parent.
    pub fn is_condition(&self) -> bool {
        !matches!(self, Self::Property(_) | Self::Items | Self::Additional)
    }
}

impl Schema {
    /// Every schema right below this one.
    pub fn children(&self) -> Vec<(Role<'_>, &Self)> {
        let mut all: Vec<(Role<'_>, &Self)> = Vec::new();
        if let Some(Additional::Schema(schema)) = &self.additional_properties {
            all.push((Role::Additional, schema));
        }
        all.extend(self.properties.iter().map(|(name, schema)| (Role::Property(name), schema)));
        all.extend(self.not.iter().map(|schema| (Role::Not, &**schema)));
        all.extend(self.all_of.iter().enumerate().map(|(index, schema)| (Role::AllOf(index), schema)));
        all.extend(self.one_of.iter().enumerate().map(|(index, schema)| (Role::OneOf(index), schema)));
        all.extend(self.any_of.iter().enumerate().map(|(index, schema)| (Role::AnyOf(index), schema)));
        if let Some(Items::One(schema)) = &self.items {
            all.push((Role::Items, schema));
        }
        all
    }

    /// Whether any node from here on down is as asked for.
    pub fn any(&self, wanted: &dyn Fn(&Self) -> bool) -> bool {
        wanted(self) || self.children().into_iter().any(|(_, child)| child.any(wanted))
    }
}

/// A node that describes a whole object, with the fields of metadata that expressions may always look at.
pub fn meta_fields(schema: &Schema) -> Cow<'_, Schema> {
    let text = || Schema { type_: "string".into(), ..Schema::default() };
    let is = |name: &str, type_: &str| schema.properties.get(name).is_some_and(|found| found.type_ == type_);
    let named = |name: &str| {
        let metadata = schema.properties.get("metadata");
        metadata.and_then(|m| m.properties.get(name)).is_some_and(|found| found.type_ == "string")
    };
    if is("kind", "string") && is("apiVersion", "string") && named("name") && named("generateName") {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
    let metadata = Schema { type_: "object".into(), properties: names.into(), ..Schema::default() };
    schema.properties.insert("kind".into(), text());
    schema.properties.insert("apiVersion".into(), text());
    schema.properties.insert("metadata".into(), metadata);
    Cow::Owned(schema)
}
