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

/// A schema in which every whole object has the fields of metadata that expressions may always look at: the root, if
/// it is `whole`, and what is embedded below it.
pub fn with_metadata(schema: &Schema, whole: bool) -> Cow<'_, Schema> {
    if !whole && !schema.any(&|node| node.embedded_resource) {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    add_metadata(&mut schema, whole);
    Cow::Owned(schema)
}

fn add_metadata(schema: &mut Schema, whole: bool) {
    if whole {
        let metadata = schema.properties.entry("metadata".to_owned()).or_default();
        metadata.type_ = "object".to_owned();
        metadata.properties.retain(|name, _| NAMES.contains(&name.as_str()));
        NAMES.into_iter().for_each(|name| as_text(metadata, name));
        ["apiVersion", "kind"].into_iter().for_each(|name| as_text(schema, name));
    }
    let items = match &mut schema.items {
        Some(Items::One(items)) => Some(&mut **items),
        _ => None,
    };
    let additional = match &mut schema.additional_properties {
        Some(Additional::Schema(additional)) => Some(&mut **additional),
        _ => None,
    };
    for child in schema.properties.values_mut().chain(items).chain(additional) {
        let whole = child.embedded_resource;
        add_metadata(child, whole);
    }
}

/// The fields of metadata that expressions may look at.
const NAMES: [&str; 2] = ["name", "generateName"];

fn as_text(schema: &mut Schema, name: &str) {
    let property = schema.properties.entry(name.to_owned()).or_default();
    if property.type_ != "string" {
        *property = Schema { type_: "string".to_owned(), ..Schema::default() };
    }
}
