//! Kinds whose rules are little more than their names and their fields: one row of a table each.
//!
//! `rows` is the table; `defaults` and `cells` hold what single rows add.

mod cells;
mod defaults;
mod errors;
mod rows;

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::check::go;
use super::{Column, DeleteReply, Names};
use crate::field::Invalid;
use crate::registry::{Decoded, Kind, KindInfo, KindNames, Part, Prepared, Text, VERBS};
use crate::schema::{Accepted, Schema, TypeId};
use crate::status::Resource;

pub use rows::ROWS;

/// A kind as a row.
#[derive(Clone, Copy)]
pub struct Row {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub names: Names,
    pub namespaced: bool,
    pub status: bool,
    pub create_on_update: bool,
    pub unconditional_update: bool,
    pub generation: bool,
    pub delete_reply: DeleteReply,
    /// None: printed as `Name, Created At`.
    pub columns: &'static [Column],
    /// Cells in the order of the columns.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
    /// Fills what the client left out.
    pub defaults: fn(&mut Value),
    /// What is wrong with an object beyond its fields.
    pub errors: fn(&Value) -> Vec<Invalid>,
    /// Fields that stay as they were created.
    pub fixed: &'static [&'static str],
    /// Paths of fields that selectors may use.
    pub field_labels: &'static [&'static str],
}

impl Row {
    /// A namespaced kind without a status, a table or rules.
    pub const fn new(group: &'static str, version: &'static str, kind: &'static str, names: Names) -> Self {
        Self {
            group,
            version,
            kind,
            names,
            namespaced: true,
            status: false,
            create_on_update: false,
            unconditional_update: true,
            generation: false,
            delete_reply: DeleteReply::Status,
            columns: &[],
            cells: |_, _| Vec::new(),
            defaults: |_| {},
            errors: |_| Vec::new(),
            fixed: &[],
            field_labels: &[],
        }
    }
}

/// The items of a list, none if it is none.
pub fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// [`Kind`] for a row.
pub struct Plain {
    info: KindInfo,
    row: Row,
    shape: Option<TypeId>,
}

impl Plain {
    pub fn new(row: Row) -> Self {
        let texts = |all: &[&'static str]| all.iter().copied().map(Cow::Borrowed).collect::<Vec<Text>>();
        let resource = Resource { group: row.group, plural: row.names.plural };
        let api_version = if row.group.is_empty() {
            row.version.to_owned()
        } else {
            format!("{}/{}", row.group, row.version)
        };
        let info = KindInfo {
            group: row.group.into(),
            version: row.version.into(),
            kind: row.kind.into(),
            table: resource.to_string().into(),
            names: KindNames {
                plural: row.names.plural.into(),
                singular: row.names.singular.into(),
                short: texts(row.names.short),
                categories: texts(row.names.categories),
            },
            namespaced: row.namespaced,
            verbs: VERBS,
            status: row.status,
            scale: None,
            subresources: &[],
            unconditional_update: row.unconditional_update,
            create_on_update: row.create_on_update,
            generation: row.generation,
            delete_reply: row.delete_reply,
            columns: Cow::Borrowed(row.columns),
            field_labels: texts(row.field_labels),
            api_version: api_version.into(),
        };
        let shape = Schema::get().kind(&info.api_version, &info.kind);
        Self { info, row, shape }
    }

    /// Every kind of this build is in the schema; a test looks.
    fn shape(&self) -> Result<TypeId, String> {
        self.shape.ok_or_else(|| format!("kind `{}` is not in the schema of this build", self.info.kind))
    }

    /// Specs are shown as upstream's own types print them.
    fn immutable(&self, field: &str, value: &Value) -> Invalid {
        let group = self.row.group.split('.').next().unwrap_or_default();
        let kind = format!("{group}.{}.{}Spec", self.row.version, self.row.kind);
        match field {
            "spec" => go::invalid(field, &kind, value, "field is immutable"),
            _ => Invalid::invalid(field, value.clone(), "field is immutable"),
        }
    }

    fn prepared(&self, mut object: Value, errors: Vec<Invalid>) -> Result<Prepared, String> {
        Schema::get().render(self.shape()?, &mut object);
        Ok(Prepared { object, errors })
    }
}

impl Kind for Plain {
    fn info(&self) -> &KindInfo {
        &self.info
    }

    fn decode(&self, input: &Value) -> Result<Decoded, String> {
        let Accepted { mut object, unknown } = Schema::get().accept(self.shape()?, input)?;
        (self.row.defaults)(&mut object);
        Ok(Decoded { object, unknown, oversized: false })
    }

    fn prepare_create(&self, mut object: Value, _now: Timestamp) -> Result<Prepared, String> {
        if self.row.status {
            take(&mut object, &Value::Null, "status");
        }
        let errors = (self.row.errors)(&object);
        self.prepared(object, errors)
    }

    fn prepare_update(
        &self,
        mut new: Value,
        old: &Value,
        part: Part,
        _now: Timestamp,
    ) -> Result<Prepared, String> {
        match part {
            Part::Status => take(&mut new, old, "spec"),
            _ if self.row.status => take(&mut new, old, "status"),
            _ => {}
        }
        let mut prepared = self.prepared(new, Vec::new())?;
        let changed = self.row.fixed.iter().filter(|field| prepared.object[**field] != old[**field]);
        let fixed = |field: &&str| self.immutable(field, &prepared.object[*field]);
        let fixed: Vec<Invalid> = changed.map(fixed).collect();
        if part == Part::Main {
            prepared.errors = (self.row.errors)(&prepared.object);
        }
        prepared.errors.extend(fixed);
        Ok(prepared)
    }

    fn cells(&self, json: &[u8], now: Timestamp) -> Result<Vec<Value>, String> {
        let object = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        Ok((self.row.cells)(&object, now))
    }

    fn field_labels(&self, json: &[u8]) -> Result<Vec<(Text, String)>, String> {
        let object: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let value = |path: &str| match path.split('.').fold(&object, |value, name| &value[name]) {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Ok(self.row.field_labels.iter().map(|path| (Text::Borrowed(*path), value(path))).collect())
    }
}

/// Puts a field of another object in place of an object's own.
fn take(object: &mut Value, from: &Value, field: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    match &from[field] {
        Value::Null => fields.remove(field),
        value => fields.insert(field.to_owned(), value.clone()),
    };
}
