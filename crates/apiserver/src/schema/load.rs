//! Reads the file that `make schema` writes.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::{Field, Merge, Ownership, Place, Schema, Shape, Type, TypeId};

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("parse the schema")]
    Parse(#[from] serde_json::Error),
    #[error("type `{0}` is named and not described")]
    Undescribed(String),
    #[error("shape `{0}` is not known")]
    Shape(String),
}

#[derive(Deserialize)]
struct File {
    kinds: BTreeMap<String, String>,
    atomic: Vec<String>,
    types: BTreeMap<String, Vec<FileField>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct FileField {
    name: String,
    number: u32,
    #[serde(rename = "type")]
    shape: String,
    inline: bool,
    omit_empty: bool,
    omit_zero: bool,
    go: String,
    pointer: bool,
    strategy: String,
    merge_key: String,
    ownership: String,
    keys: Vec<String>,
}

pub fn load(text: &str) -> Result<Schema, LoadError> {
    let file: File = serde_json::from_str(text)?;
    let ids: HashMap<&str, TypeId> =
        file.types.keys().zip(0..).map(|(name, number)| (name.as_str(), TypeId(number))).collect();
    let mut types = Vec::with_capacity(file.types.len());
    for (name, fields) in &file.types {
        let fields = fields.iter().map(|field| read(field, &ids)).collect::<Result<_, _>>()?;
        let atomic = file.atomic.contains(name);
        let is_kind = file.kinds.values().any(|root| root == name);
        types.push(Type { name: name.as_str().into(), fields, atomic, is_kind, by_name: HashMap::new() });
    }
    index(&mut types);
    let find =
        |name: &String| ids.get(name.as_str()).copied().ok_or_else(|| LoadError::Undescribed(name.clone()));
    let kinds = file.kinds.iter().map(|(kind, name)| Ok((kind.as_str().into(), find(name)?)));
    Ok(Schema { kinds: kinds.collect::<Result<_, LoadError>>()?, types })
}

fn read(field: &FileField, ids: &HashMap<&str, TypeId>) -> Result<Field, LoadError> {
    let merges = |word: &str| field.strategy.split(',').any(|strategy| strategy == word);
    Ok(Field {
        name: field.name.as_str().into(),
        number: field.number,
        shape: shape(&field.shape, ids)?,
        inline: field.inline,
        omit_empty: field.omit_empty,
        omit_zero: field.omit_zero,
        go: field.go.as_str().into(),
        pointer: field.pointer,
        merge: Merge {
            elements: merges("merge"),
            key: field.merge_key.as_str().into(),
            retain_keys: merges("retainKeys"),
        },
        ownership: match field.ownership.as_str() {
            "atomic" => Ownership::Atomic,
            "granular" => Ownership::Granular,
            "set" => Ownership::Set,
            "map" => Ownership::Map(field.keys.iter().map(|key| key.as_str().into()).collect()),
            _ => Ownership::Shape,
        },
    })
}

fn shape(text: &str, ids: &HashMap<&str, TypeId>) -> Result<Shape, LoadError> {
    let inner = |rest: &str| shape(rest, ids).map(Box::new);
    if let Some(name) = text.strip_prefix('@') {
        let known = ids.get(name).copied().ok_or_else(|| LoadError::Undescribed(name.to_owned()));
        return known.map(Shape::Message);
    }
    if let Some(rest) = text.strip_prefix("[message]") {
        return inner(rest).map(Shape::WrappedList);
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return inner(rest).map(Shape::List);
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return inner(rest).map(Shape::Map);
    }
    Ok(match text {
        "string" => Shape::String,
        "bool" => Shape::Bool,
        "int32" | "uint32" => Shape::Int32,
        "int64" | "uint64" => Shape::Int64,
        "float64" => Shape::Float64,
        "bytes" => Shape::Bytes,
        "quantity" => Shape::Quantity,
        "intOrString" => Shape::IntOrString,
        "time" => Shape::Time,
        "microTime" => Shape::MicroTime,
        "duration" => Shape::Duration,
        "fieldsV1" => Shape::FieldsV1,
        "rawExtension" => Shape::RawExtension,
        other => return Err(LoadError::Shape(other.to_owned())),
    })
}

/// Names of each type, those of inlined messages included.
fn index(types: &mut [Type]) {
    for position in 0..types.len() {
        let mut names = HashMap::new();
        for (field, number) in types[position].fields.iter().zip(0..) {
            match field.shape {
                Shape::Message(inner) if field.inline => {
                    let place = Place { field: number, inline: true };
                    let all = inner_names(types, inner);
                    names.extend(all.into_iter().map(|name| (name, place)));
                }
                _ => _ = names.insert(field.name.clone(), Place { field: number, inline: false }),
            }
        }
        types[position].by_name = names;
    }
}

fn inner_names(types: &[Type], id: TypeId) -> Vec<Box<str>> {
    let fields = types[id.0 as usize].fields.iter();
    fields
        .flat_map(|field| match field.shape {
            Shape::Message(inner) if field.inline => inner_names(types, inner),
            _ => vec![field.name.clone()],
        })
        .collect()
}
