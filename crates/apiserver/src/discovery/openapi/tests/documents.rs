//! Whole documents: no loose ends, v2 in both forms, kinds that clients define, and what is kept.

use jiff::Timestamp;
use k8s_openapi::schemars::SchemaGenerator;
use serde_json::json;

use super::*;
use crate::kinds::Deletion;
use crate::protobuf::wire::{Raw, Reader};
use crate::registry::{Decoded, KindInfo, Part, Prepared, Text};

/// A kind whose schema a client brought.
struct Widgets(KindInfo, Value);

impl Widgets {
    fn new(schema: Value) -> Arc<dyn Kind> {
        let mut info = kinds("storage.k8s.io")[0].info().clone();
        (info.group, info.kind, info.api_version) = ("ex.io".into(), "Widget".into(), "ex.io/v1".into());
        info.names.plural = "widgets".into();
        Arc::new(Self(info, schema))
    }
}

impl Kind for Widgets {
    fn info(&self) -> &KindInfo {
        &self.0
    }
    fn structural_schema(&self) -> Option<&Value> {
        Some(&self.1)
    }
    fn describe(&self, _: &mut SchemaGenerator) -> Option<Text> {
        None
    }
    fn decode(&self, _: &Value) -> Result<Decoded, String> {
        Err(String::new())
    }
    fn prepare_create(&self, _: Value, _: Timestamp) -> Result<Prepared, String> {
        Err(String::new())
    }
    fn prepare_update(&self, _: Value, _: &Value, _: Part, _: Timestamp) -> Result<Prepared, String> {
        Err(String::new())
    }
    fn name_errors(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn deletion(&self, _: &Value, _: Option<i64>) -> Result<Deletion, String> {
        Ok(Deletion::Now)
    }
    fn delete_refusal(&self, _: &Value) -> Result<Option<&'static str>, String> {
        Ok(None)
    }
    fn cells(&self, _: &[u8], _: Timestamp) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
    fn field_labels(&self, _: &[u8]) -> Result<Vec<(Text, String)>, String> {
        Ok(Vec::new())
    }
}

fn widget() -> Value {
    json!({
        "type": "object", "description": "A widget.",
        "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 3, "nullable": true},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "default": {"type": "string"},
        }}},
    })
}

#[test]
fn every_reference_leads_somewhere() {
    for group in ["", "storage.k8s.io", "coordination.k8s.io"] {
        assert_whole(&build::group_version(&kinds(group)));
    }
    let all: Vec<_> = registry().kinds().cloned().collect();
    assert_whole(&build::everything(&all));
}

#[test]
fn a_kind_that_brings_its_schema() {
    let all = [Widgets::new(widget())];
    let document = build::group_version(&all);
    assert_whole(&document);
    let schema = &document["components"]["schemas"]["io.ex.v1.Widget"];
    assert_eq!(schema["description"], "A widget.");
    let kind = json!([{"group": "ex.io", "kind": "Widget", "version": "v1"}]);
    assert_eq!(schema["x-kubernetes-group-version-kind"], kind);
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["default"], 3);
    assert!(schema["properties"]["metadata"]["allOf"].is_array());
    let patch = &document["paths"]["/apis/ex.io/v1/widgets/{name}"]["patch"]["requestBody"]["content"];
    assert!(patch.get("application/strategic-merge-patch+json").is_none(), "{patch}");

    let v2 = build::everything(&all);
    let spec = &v2["definitions"]["io.ex.v1.Widget"]["properties"]["spec"]["properties"];
    assert_eq!(spec["size"], json!({"type": "integer"}));
    assert_eq!(spec["port"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(spec["default"], json!({"type": "string"}), "a field of that name is no default");
}

#[test]
fn v2_says_what_old_clients_look_for() {
    let all: Vec<_> = registry().kinds().cloned().collect();
    let document = build::everything(&all);
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    let inline: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(inline, ["body", "dryRun", "fieldValidation"]);
    assert_eq!(document["parameters"]["force"]["type"], "boolean");
    let claim = &document["definitions"]["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"];
    assert_eq!(claim["resources"]["$ref"], "#/definitions/io.k8s.api.core.v1.VolumeResourceRequirements");
    assert!(claim["resources"].get("default").is_none() && claim["resources"].get("allOf").is_none());
    assert_eq!(document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"], "string");
}

fn field<'a>(message: &'a [u8], number: u32) -> Vec<&'a [u8]> {
    let found = Reader::new(message).map(Result::unwrap).filter(|(known, _)| *known == number);
    found.map(|(_, raw)| if let Raw::Bytes(bytes) = raw { bytes } else { panic!("{raw:?}") }).collect()
}

/// The value behind a name in a list of pairs.
fn named<'a>(pairs: &[&'a [u8]], name: &str) -> &'a [u8] {
    let found = pairs.iter().find(|pair| field(pair, 1)[0] == name.as_bytes());
    field(found.unwrap_or_else(|| panic!("no {name}")), 2)[0]
}

#[test]
fn v2_in_protobuf_holds_the_same() {
    let all: Vec<_> = registry().kinds().cloned().collect();
    let document = build::everything_binary(&all);
    assert_eq!(field(&document, 1), [b"2.0"]);
    let claim = named(&field(field(&document, 9)[0], 1), "io.k8s.api.core.v1.PersistentVolumeClaimSpec");
    let modes = named(&field(field(claim, 25)[0], 1), "accessModes");
    assert_eq!(field(field(modes, 22)[0], 1), [b"array"]);
    let mark = named(&field(modes, 31), "x-kubernetes-list-type");
    assert_eq!(field(mark, 2), [b"\"atomic\""]);

    let path = named(&field(field(&document, 8)[0], 2), "/api/v1/namespaces/{namespace}/pods/{name}");
    let patch = field(path, 8)[0];
    assert_eq!(field(patch, 5), [b"patchCoreV1NamespacedPod"]);
    // Body, dryRun and fieldValidation stand there themselves; two more are references.
    let parameters = field(patch, 8);
    let here = parameters.iter().filter(|one| !field(one, 1).is_empty()).count();
    assert_eq!((here, parameters.len()), (3, 5));
    let query = field(field(field(parameters[1], 1)[0], 2)[0], 3)[0];
    assert_eq!(field(query, 4), [b"dryRun"]);
}

#[test]
fn what_was_made_is_kept_until_its_kinds_change() {
    let name = |group: &str| Name::V3 { group: group.into(), version: "v1".into() };
    let (documents, mut registry) = (Documents::default(), registry());
    registry.add_kind(Widgets::new(widget()));
    let get = |registry: &Registry, group: &str| documents.get(registry, &name(group)).unwrap();
    let (storage, widgets) = (get(&registry, "storage.k8s.io"), get(&registry, "ex.io"));
    assert!(Arc::ptr_eq(&storage, &get(&registry, "storage.k8s.io")));

    // Defined anew, with another schema.
    registry.add_kind(Widgets::new(json!({"type": "object", "description": "Another."})));
    assert!(Arc::ptr_eq(&storage, &get(&registry, "storage.k8s.io")), "of other kinds");
    let again = get(&registry, "ex.io");
    assert_ne!(widgets.hash, again.hash);
    assert!(documents.get(&registry, &name("none.io")).is_none());
}
