//! One version of a custom resource as a kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::columns::Columns;
use super::correlate::Correlated;
use super::definition::{Definition, ScalePaths, Version, status};
use super::json_path::JsonPath;
use super::prune::{fill_defaults, prune, prune_nulls};
use super::rules::Rules;
use super::schema::Schema;
use super::{deprecation, embedded, lists, object_meta, scale, validate, warnings};
use crate::core::OBJECT_MAX;
use crate::field::{Invalid, Reason};
use crate::kinds::DeleteReply;
use crate::metadata;
use crate::registry::{Decoded, Kind, KindInfo, KindNames, Part, Prepared, Scale, Text, ViewKey};

/// In upstream's order.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Of a kind whose definition is being deleted.
const LAST_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The schemas of all versions, by `apiVersion`.
type Schemas = Arc<BTreeMap<String, Arc<Schema>>>;

pub struct CustomKind {
    info: KindInfo,
    schema: Arc<Schema>,
    /// As the client wrote it.
    source: Value,
    schemas: Schemas,
    rules: Option<Rules>,
    columns: Columns,
    selectable: Vec<(Text, JsonPath)>,
    scale: Option<ScalePaths>,
    storage: String,
    view: ViewKey,
    /// Said with every answer.
    pub deprecation: Option<String>,
    /// No new objects, because the definition goes.
    pub terminating: bool,
    /// Ends watches once the definition has changed or gone.
    pub gone: CancellationToken,
}

/// The kinds that a definition makes: those of its served versions, and the one that objects are stored as.
pub struct Kinds {
    pub served: Vec<Arc<CustomKind>>,
    pub storage: Option<Arc<CustomKind>>,
}

impl Kinds {
    /// `gone` ends the watches of all of them.
    pub fn of(definition: &Definition, gone: &CancellationToken) -> Self {
        let spec = &definition.spec;
        let api_version = |version: &Version| format!("{}/{}", spec.group, version.name);
        let parsed =
            |version: &Version| Arc::new(version.schema().and_then(Schema::parse).unwrap_or_default());
        let schemas: Schemas =
            Arc::new(spec.versions.iter().map(|version| (api_version(version), parsed(version))).collect());
        let storage =
            spec.versions.iter().find(|version| version.storage).map(api_version).unwrap_or_default();
        let make = |version: &Version| {
            Arc::new(CustomKind::new(definition, version, schemas.clone(), storage.clone(), gone.clone()))
        };
        let mut kinds = Self { served: Vec::new(), storage: None };
        for version in spec.versions.iter().filter(|version| version.served || version.storage) {
            let kind = make(version);
            if version.served {
                kinds.served.push(kind.clone());
            }
            if version.storage {
                kinds.storage = Some(kind);
            }
        }
        kinds
    }
}

impl CustomKind {
    fn new(
        definition: &Definition,
        version: &Version,
        schemas: Schemas,
        storage: String,
        gone: CancellationToken,
    ) -> Self {
        let api_version = format!("{}/{}", definition.spec.group, version.name);
        let schema = schemas.get(&api_version).cloned().unwrap_or_default();
        let terminating = definition.is(status::TERMINATING);
        let columns = Columns::of(&version.additional_printer_columns);
        let selectable: Vec<(Text, JsonPath)> = version
            .selectable_fields
            .iter()
            .filter_map(|field| {
                let label = field.json_path.trim_start_matches('.').to_owned();
                Some((label.into(), JsonPath::parse(&field.json_path)?))
            })
            .collect();
        let info = KindInfo {
            group: definition.spec.group.clone().into(),
            version: version.name.clone().into(),
            kind: definition.spec.names.kind.clone().into(),
            api_version: api_version.into(),
            table: definition.table().into(),
            names: names(definition),
            namespaced: definition.is_namespaced(),
            verbs: if terminating { LAST_VERBS } else { VERBS },
            status: version.has_status(),
            scale: version.scale().map(scale_paths),
            subresources: &[],
            unconditional_update: false,
            create_on_update: false,
            generation: true,
            delete_reply: DeleteReply::Status,
            columns: columns.headers.clone().into(),
            field_labels: selectable.iter().map(|(label, _)| label.clone()).collect(),
        };
        Self {
            rules: Rules::of(&schema, true),
            source: version.schema().cloned().unwrap_or_default(),
            schema,
            schemas,
            columns,
            selectable,
            scale: version.scale().cloned(),
            storage,
            view: ViewKey::default(),
            deprecation: deprecation::text(&definition.spec, version),
            terminating,
            gone,
            info,
        }
    }

    /// Types of metadata and unknown fields, as upstream treats an object whenever it reads one.
    fn coerce(&self, object: &mut Value, schema: &Schema) -> Result<Vec<String>, String> {
        let mut unknown = Vec::new();
        let metadata = object_meta::coerce(&object["metadata"], &mut unknown)?;
        let mut unknown: Vec<String> = unknown.into_iter().map(|path| format!("metadata.{path}")).collect();
        unknown.extend(prune(object, schema));
        prune_nulls(object, Some(schema));
        let mut inside = Vec::new();
        embedded::coerce(object, schema, "", &mut inside).map_err(|error| error.to_string())?;
        inside.sort();
        unknown.extend(inside);
        object["metadata"] = metadata;
        Ok(unknown)
    }

    fn errors(&self, new: &Value, old: Option<&Value>) -> Vec<Invalid> {
        let schema = &*self.schema;
        let replaces = old.map(|old| Correlated::root(new, old, schema));
        let mut errors = validate::validate("", new, schema, replaces);
        if let Some(scale) = &self.scale {
            errors.extend(scale::spec_errors(new, scale));
            errors.extend(scale::status_errors(new, scale));
        }
        errors.extend(embedded::validate(new, schema, ""));
        errors.extend(self.duplicates(new, old));
        self.add_rule_errors(&mut errors, new, old);
        errors
    }

    fn status_errors(&self, new: &Value, old: &Value) -> Vec<Invalid> {
        let mut errors = Vec::new();
        if let (Some(status), Some(schema)) = (new.get("status"), self.schema.properties.get("status")) {
            let replaces = Correlated::root(new, old, &self.schema).key("status");
            errors.extend(validate::validate("status", status, schema, replaces));
        }
        errors.extend(self.scale.iter().flat_map(|scale| scale::status_errors(new, scale)));
        errors.extend(self.duplicates(new, Some(old)));
        self.add_rule_errors(&mut errors, new, Some(old));
        errors
    }

    /// What was twice there before may stay so.
    fn duplicates(&self, new: &Value, old: Option<&Value>) -> Vec<Invalid> {
        let found = lists::duplicates(new, &self.schema);
        let excused = || old.is_some_and(|old| !lists::duplicates(old, &self.schema).is_empty());
        if found.is_empty() || excused() { Vec::new() } else { found }
    }

    /// Rules rely on values of the right shape.
    fn add_rule_errors(&self, errors: &mut Vec<Invalid>, new: &Value, old: Option<&Value>) {
        const SHAPES: [Reason; 5] =
            [Reason::NotSupported, Reason::Required, Reason::TooLong, Reason::TooMany, Reason::TypeInvalid];
        let Some(rules) = &self.rules else { return };
        if errors.iter().any(|error| SHAPES.contains(&error.reason)) {
            errors.push(Invalid::invalid("<nil>", Value::Null, UNCHECKED));
        } else {
            errors.extend(rules.check(new, old));
        }
    }
}

/// Names as they were accepted.
fn names(definition: &Definition) -> KindNames {
    let accepted = &definition.status.accepted_names;
    let texts = |all: &[String]| all.iter().map(|text| Text::from(text.clone())).collect::<Vec<_>>();
    KindNames {
        plural: definition.spec.names.plural.clone().into(),
        singular: accepted.singular.clone().into(),
        short: texts(&accepted.short_names),
        categories: texts(&accepted.categories),
    }
}

fn scale_paths(scale: &ScalePaths) -> Scale {
    let split =
        |path: &str| path.trim_start_matches('.').split('.').map(|name| name.to_owned().into()).collect();
    Scale {
        spec_replicas: split(&scale.spec_replicas_path),
        status_replicas: split(&scale.status_replicas_path),
        selector: scale.label_selector_path.as_deref().filter(|path| !path.is_empty()).map(split),
    }
}

impl Kind for CustomKind {
    fn info(&self) -> &KindInfo {
        &self.info
    }

    fn decode(&self, input: &Value) -> Result<Decoded, String> {
        let mut object = input.clone();
        let unknown = self.coerce(&mut object, &self.schema)?;
        let oversized = !fill_defaults(&mut object, &self.schema, OBJECT_MAX);
        Ok(Decoded { object, unknown, oversized })
    }

    fn warnings(&self, new: &Value, old: Option<(&Value, Part)>) -> Vec<String> {
        match old {
            None => warnings::finalizers(new, &Value::Null),
            Some((old, Part::Main)) => warnings::finalizers(new, old),
            Some(_) => Vec::new(),
        }
    }

    fn prepare_create(&self, mut object: Value, _now: Timestamp) -> Result<Prepared, String> {
        if let (true, Some(fields)) = (self.info.status, object.as_object_mut()) {
            fields.remove("status");
        }
        Ok(Prepared { errors: self.errors(&object, None), object })
    }

    fn prepare_update(
        &self,
        mut new: Value,
        old: &Value,
        part: Part,
        _now: Timestamp,
    ) -> Result<Prepared, String> {
        if part == Part::Status {
            let mut changed = old.clone();
            let fields = (changed.as_object_mut(), new.as_object_mut());
            if let (Some(changed), Some(new)) = fields {
                changed.remove("status");
                changed.extend(new.remove_entry("status"));
            }
            return Ok(Prepared { errors: self.status_errors(&changed, old), object: changed });
        }
        if let (true, Some(fields)) = (self.info.status, new.as_object_mut()) {
            fields.remove("status");
            fields.extend(old.get("status").map(|status| ("status".to_owned(), status.clone())));
        }
        // A status that is not split off is content like any other.
        if new.get("status") != old.get("status") {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            metadata::set(&mut new, "generation", Some(generation.into()));
        }
        Ok(Prepared { errors: self.errors(&new, Some(old)), object: new })
    }

    fn cells(&self, json: &[u8], now: Timestamp) -> Result<Vec<Value>, String> {
        let object: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        Ok(self.columns.cells(&object, now))
    }

    fn field_labels(&self, json: &[u8]) -> Result<Vec<(Text, String)>, String> {
        if self.selectable.is_empty() {
            return Ok(Vec::new());
        }
        let object: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let shown = |path: &JsonPath| match path.first(&object) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        Ok(self.selectable.iter().map(|(label, path)| (label.clone(), shown(path))).collect())
    }

    fn view(&self) -> Option<&ViewKey> {
        Some(&self.view)
    }

    /// An object is what the version it is stored in says, under another name.
    fn from_stored(&self, mut stored: Value) -> Value {
        let version = stored["apiVersion"].as_str().unwrap_or_default();
        if let Some(schema) = self.schemas.get(version).cloned() {
            // What cannot be read stays as it is: nothing is lost by being looked at.
            let _ = self.coerce(&mut stored, &schema);
            if !fill_defaults(&mut stored, &schema, OBJECT_MAX) {
                let (table, name) = (&self.info.table, metadata::name(&stored));
                let namespace = metadata::text(&stored, "namespace");
                tracing::warn!(%table, namespace, name, "defaults left out of a stored object: with all of them it would be larger than {OBJECT_MAX} bytes; make the defaults of its definition smaller");
            }
        }
        if stored["apiVersion"] != *self.info.api_version {
            stored["apiVersion"] = self.info.api_version.as_ref().into();
            let _ = self.coerce(&mut stored, &self.schema);
        }
        stored
    }

    fn to_stored(&self, mut object: Value) -> Value {
        if self.storage != self.info.api_version {
            object["apiVersion"] = self.storage.as_str().into();
            if let Some(schema) = self.schemas.get(&self.storage).cloned() {
                let _ = self.coerce(&mut object, &schema);
            }
        }
        object
    }

    fn structural_schema(&self) -> Option<&Value> {
        Some(&self.source)
    }

    fn storage_version(&self) -> Option<&str> {
        self.storage.rsplit('/').next()
    }

    fn custom(&self) -> Option<&CustomKind> {
        Some(self)
    }
}
