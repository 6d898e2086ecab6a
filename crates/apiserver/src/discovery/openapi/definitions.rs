//! The schemas of a document: what the Rust types say, in upstream's form, with upstream's marks.
//!
//! k8s-openapi knows the fields, their types and their descriptions; the built-in schema knows how lists merge; the
//! facts know what is required, enumerated and defaulted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta, Status};
use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::facts::{Facts, OfType};
use super::property::Marks;
use crate::registry::{Kind, KindInfo};
use crate::schema;

/// Where references point.
pub const PREFIX: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// Schemas by name, as they are gathered.
pub struct Definitions {
    generator: SchemaGenerator,
    /// Schemas that no Rust type describes.
    own: BTreeMap<String, Value>,
    texts: Texts,
    /// Kinds that are written as a schema.
    kinds: BTreeMap<String, BTreeSet<[String; 3]>>,
}

pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("{PREFIX}{name}")})
}

impl Definitions {
    pub fn new() -> Self {
        let settings = SchemaSettings::draft07().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.transforms.clear();
        });
        let mut generator = settings.into_generator();
        let texts = Texts::take(&mut generator);
        Self { generator, own: BTreeMap::new(), texts, kinds: BTreeMap::new() }
    }

    /// A Rust type and all it refers to.
    pub fn add<T: JsonSchema>(&mut self) -> String {
        self.generator.subschema_for::<T>();
        T::schema_name().into_owned()
    }

    /// Says that a schema is how a kind is written.
    pub fn mark(&mut self, name: &str, [group, version, kind]: [&str; 3]) {
        let kinds = self.kinds.entry(name.to_owned()).or_default();
        kinds.insert([group.to_owned(), kind.to_owned(), version.to_owned()]);
    }

    /// A kind, and its list if it can be listed.
    pub fn add_kind(&mut self, kind: &dyn Kind) -> String {
        let info = kind.info();
        let name = match kind.describe(&mut self.generator) {
            Some(name) => name.into_owned(),
            None => self.add_own(info, kind.structural_schema().cloned()),
        };
        self.mark(&name, [&info.group, &info.version, &info.kind]);
        if info.verbs.contains(&"list") {
            let listed = format!("{}List", info.kind);
            self.mark(&list_name(&name), [&info.group, &info.version, &listed]);
            self.generator.subschema_for::<ListMeta>();
            self.own.insert(list_name(&name), self.texts.list(info, &name));
        }
        name
    }

    /// A kind that a client defined.
    fn add_own(&mut self, info: &KindInfo, schema: Option<Value>) -> String {
        self.generator.subschema_for::<ObjectMeta>();
        let name = own_name(info);
        let free = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut schema = schema.unwrap_or_else(free);
        self.texts.put_on(&mut schema);
        self.own.insert(name.clone(), schema);
        name
    }

    /// All of them, in upstream's form.
    pub fn finish(mut self) -> Map<String, Value> {
        let (schema, facts) = (schema::Schema::get(), Facts::load());
        let mut all: Map<String, Value> = self.generator.take_definitions(false);
        for (name, definition) in &mut all {
            mend(schema, &facts, name, definition);
        }
        all.extend(self.own);
        for (name, kinds) in self.kinds {
            let kinds = kinds
                .iter()
                .map(|[group, kind, version]| json!({"group": group, "kind": kind, "version": version}));
            if let Some(definition) = all.get_mut(&name) {
                definition[GROUP_VERSION_KIND] = kinds.collect();
            }
        }
        all
    }
}

pub fn list_name(name: &str) -> String {
    format!("{name}List")
}

/// How upstream describes the fields that all kinds have. Taken from types that have them.
struct Texts {
    api_version: Value,
    kind: Value,
    metadata: Value,
    list_metadata: Value,
}

impl Texts {
    fn take(generator: &mut SchemaGenerator) -> Self {
        let object = ConfigMap::json_schema(generator);
        let list = Status::json_schema(generator);
        let text = |schema: &Schema, field: &str| {
            schema.get("properties").map(|fields| fields[field]["description"].clone()).unwrap_or_default()
        };
        Self {
            api_version: text(&object, "apiVersion"),
            kind: text(&object, "kind"),
            metadata: text(&object, "metadata"),
            list_metadata: text(&list, "metadata"),
        }
    }

    fn put_on(&self, schema: &mut Value) {
        let metadata = json!({"description": self.metadata, "allOf": [reference(OBJECT_META)]});
        schema["properties"]["apiVersion"] = json!({"description": self.api_version, "type": "string"});
        schema["properties"]["kind"] = json!({"description": self.kind, "type": "string"});
        schema["properties"]["metadata"] = metadata;
    }

    fn list(&self, info: &KindInfo, name: &str) -> Value {
        let kind = &info.kind;
        json!({
            "description": format!("{kind}List is a list of {kind}"),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"description": self.api_version, "type": "string"},
                "items": {
                    "description": format!("List of {}.", info.names.plural),
                    "type": "array",
                    "items": {"default": {}, "allOf": [reference(name)]},
                },
                "kind": {"description": self.kind, "type": "string"},
                "metadata": {
                    "description": self.list_metadata,
                    "default": {},
                    "allOf": [reference(LIST_META)],
                },
            },
        })
    }
}

/// `com.example.v1.Widget` for widgets of `example.com`.
fn own_name(info: &KindInfo) -> String {
    let group: Vec<&str> = info.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), info.version, info.kind)
}

fn mend(schema: &schema::Schema, facts: &Facts, name: &str, definition: &mut Value) {
    if let Some(special) = special(name) {
        let description = definition["description"].take();
        *definition = special;
        definition["description"] = description;
        return;
    }
    let of = schema.named(name);
    let none = OfType::default();
    let known = facts.of(name);
    require(definition, of.is_some().then(|| known.unwrap_or(&none)));
    if of.is_some_and(|of| of.atomic) {
        definition["x-kubernetes-map-type"] = "atomic".into();
    }
    let Some(Value::Object(properties)) = definition.get_mut("properties") else { return };
    for (field, property) in properties {
        let of = of.and_then(|of| schema.field(of, field));
        Marks::of(field, of, facts, known.unwrap_or(&none)).put_on(property);
    }
}

/// The Rust types require every object to have metadata; upstream does not.
fn require(definition: &mut Value, facts: Option<&OfType>) {
    let Some(object) = definition.as_object_mut() else { return };
    let required = match (facts, object.remove("required")) {
        (Some(facts), _) => facts.required.iter().map(|field| field.as_str().into()).collect(),
        (None, Some(Value::Array(mut fields))) => {
            fields.retain(|field| field != "metadata");
            fields
        }
        (None, _) => Vec::new(),
    };
    if !required.is_empty() {
        object.insert("required".into(), required.into());
    }
}

/// Types that are not objects, or whose content is free.
fn special(name: &str) -> Option<Value> {
    const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            Some(json!({"oneOf": [{"type": "string"}, {"type": "number"}]}))
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            Some(json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}))
        }
        "io.k8s.apimachinery.pkg.apis.meta.v1.Patch" => Some(json!({"type": "object"})),
        _ if name.starts_with(EXTENSIONS) && !name.ends_with("JSONSchemaProps") => Some(json!({})),
        _ => None,
    }
}
