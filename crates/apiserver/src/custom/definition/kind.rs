//! CustomResourceDefinition as a kind.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::types::DEFINITION;
use super::{Definition, GROUP, PLURAL, TABLE, approval, names, spec, status};
use crate::custom::go_type;
use crate::custom::schema::Schema;
use crate::custom::validate::is_recognized;
use crate::field::Invalid;
use crate::kinds::DeleteReply;
use crate::registry::{Decoded, Kind, KindInfo, KindNames, Part, Prepared, Text, VERBS};

pub struct DefinitionKind {
    info: KindInfo,
}

impl Default for DefinitionKind {
    fn default() -> Self {
        let info = KindInfo {
            group: GROUP.into(),
            version: "v1".into(),
            kind: "CustomResourceDefinition".into(),
            api_version: "apiextensions.k8s.io/v1".into(),
            table: TABLE.into(),
            names: KindNames {
                plural: PLURAL.into(),
                singular: "customresourcedefinition".into(),
                short: vec!["crd".into(), "crds".into()],
                categories: vec!["api-extensions".into()],
            },
            namespaced: false,
            verbs: VERBS,
            status: true,
            scale: None,
            subresources: &[],
            unconditional_update: false,
            create_on_update: false,
            generation: true,
            delete_reply: DeleteReply::Object,
            columns: Cow::Borrowed(&[]),
            field_labels: Vec::new(),
        };
        Self { info }
    }
}

impl Kind for DefinitionKind {
    fn info(&self) -> &KindInfo {
        &self.info
    }

    fn decode(&self, input: &Value) -> Result<Decoded, String> {
        let mut unknown = Vec::new();
        let mut object = go_type::read(input, &DEFINITION, &mut unknown)?;
        fill(&mut object);
        Ok(Decoded { object, unknown, oversized: false })
    }

    fn warnings(&self, new: &Value, old: Option<(&Value, Part)>) -> Vec<String> {
        match old {
            None => unrecognized_formats(new, &Value::Null),
            Some((old, Part::Main)) => unrecognized_formats(new, old),
            Some(_) => Vec::new(),
        }
    }

    fn prepare_create(&self, mut object: Value, _now: Timestamp) -> Result<Prepared, String> {
        object["status"] = json!({"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []});
        store_storage_version(&mut object);
        Ok(Prepared { errors: errors(&object, None), object })
    }

    fn prepare_update(
        &self,
        mut new: Value,
        old: &Value,
        part: Part,
        _now: Timestamp,
    ) -> Result<Prepared, String> {
        if part == Part::Status {
            new["spec"] = old["spec"].clone();
            let accepted = Definition::parse(&new).unwrap_or_default().status.accepted_names;
            return Ok(Prepared { errors: names::errors(&accepted, "status.acceptedNames"), object: new });
        }
        new["status"] = old["status"].clone();
        store_storage_version(&mut new);
        Ok(Prepared { errors: errors(&new, Some(old)), object: new })
    }

    fn announce_end(&self, object: &Value, now: Timestamp) -> Option<Value> {
        Some(status::announced(object, now))
    }

    fn cells(&self, _json: &[u8], _now: Timestamp) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    fn field_labels(&self, _json: &[u8]) -> Result<Vec<(Text, String)>, String> {
        Ok(Vec::new())
    }

    fn describe(&self, generator: &mut SchemaGenerator) -> Option<Text> {
        generator.subschema_for::<CustomResourceDefinition>();
        Some(CustomResourceDefinition::schema_name())
    }
}

/// What the client left out.
fn fill(object: &mut Value) {
    let kind = object["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let names = &mut object["spec"]["names"];
    let empty = |value: &Value| value.as_str().unwrap_or_default().is_empty();
    if empty(&names["singular"]) && !kind.is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if empty(&names["listKind"]) && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if object["spec"]["conversion"].is_null() {
        object["spec"]["conversion"] = json!({"strategy": "None"});
    }
}

/// Objects are stored in the storage version from now on.
fn store_storage_version(object: &mut Value) {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    let Some(storage) = versions.into_iter().find(|version| version["storage"] == true) else { return };
    let name = storage["name"].clone();
    let stored = &mut object["status"]["storedVersions"];
    match stored.as_array_mut() {
        Some(stored) if stored.contains(&name) => {}
        Some(stored) => stored.push(name),
        None => *stored = json!([name]),
    }
}

fn errors(object: &Value, old: Option<&Value>) -> Vec<Invalid> {
    let Some(new) = Definition::parse(object) else {
        return vec![Invalid::invalid("spec", Value::Null, "is not a definition of a custom resource")];
    };
    let old = old.and_then(Definition::parse);
    let mut errors = Vec::new();
    if old.is_none() && new.metadata.name != new.table() {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(Invalid::invalid("metadata.name", new.metadata.name.as_str(), why));
    }
    errors.extend(spec::errors(&new));
    errors.extend(old.iter().flat_map(|old| spec::update_errors(&new, old)));
    errors.extend(names::errors(&new.status.accepted_names, "status.acceptedNames"));
    errors.extend(spec::stored_version_errors(&new));
    errors.extend(approval::errors(&new.spec.group, &new.metadata, old.as_ref().map(|old| &old.metadata)));
    if new.spec.preserve_unknown_fields && old.is_none_or(|old| !old.spec.preserve_unknown_fields) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Invalid::invalid("spec.preserveUnknownFields", true, why));
    }
    errors
}

/// Each once, and only if the definition did not have it before.
fn unrecognized_formats(new: &Value, old: &Value) -> Vec<String> {
    let mut told = BTreeSet::new();
    let mut fresh = formats(new);
    if !fresh.is_empty() {
        told.extend(formats(old));
    }
    fresh.retain(|format| told.insert(format.clone()));
    fresh.into_iter().map(|format| format!("unrecognized format {format:?}")).collect()
}

/// Those that nobody checks, in order.
fn formats(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let definition = Definition::parse(object).unwrap_or_default();
    for schema in definition.spec.versions.iter().filter_map(|version| Schema::parse(version.schema()?)) {
        collect_formats(&schema, &mut found);
    }
    found
}

fn collect_formats(schema: &Schema, found: &mut Vec<String>) {
    if !schema.format.is_empty() && !is_recognized(schema) {
        found.push(schema.format.clone());
    }
    schema.children().into_iter().for_each(|(_, below)| collect_formats(below, found));
}
