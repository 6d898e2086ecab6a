//! Schemas, as upstream's own document has them.

use serde_json::json;

use super::*;

const CORE: &str = "io.k8s.api.core.v1";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

fn schema(document: &Value, name: &str, path: &str) -> Value {
    let found = &document["components"]["schemas"][name];
    let mut found = found.pointer(path).unwrap_or_else(|| panic!("{name} has no {path}")).clone();
    if let Some(object) = found.as_object_mut() {
        object.remove("description");
    }
    found
}

#[test]
fn fields_say_how_they_merge_and_what_they_may_hold() {
    let document = build::group_version(&kinds(""));
    let core = |name: &str| format!("#/components/schemas/{CORE}.{name}");
    let cases = [
        (
            "PersistentVolumeClaimSpec",
            "accessModes",
            json!({
                "type": "array", "x-kubernetes-list-type": "atomic",
                "items": {"type": "string", "default": "", "enum": ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]},
            }),
        ),
        (
            "PersistentVolumeClaimSpec",
            "resources",
            json!({"default": {}, "allOf": [{"$ref": core("VolumeResourceRequirements")}]}),
        ),
        (
            "PersistentVolumeClaimSpec",
            "dataSource",
            json!({"allOf": [{"$ref": core("TypedLocalObjectReference")}]}),
        ),
        ("PersistentVolumeClaimSpec", "volumeName", json!({"type": "string"})),
        (
            "PersistentVolumeSpec",
            "claimRef",
            json!({
                "allOf": [{"$ref": core("ObjectReference")}], "x-kubernetes-map-type": "granular",
            }),
        ),
        ("ContainerPort", "containerPort", json!({"type": "integer", "format": "int32", "default": 0})),
        (
            "ContainerPort",
            "protocol",
            json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]}),
        ),
        (
            "Container",
            "ports",
            json!({
                "type": "array", "items": {"default": {}, "allOf": [{"$ref": core("ContainerPort")}]},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "x-kubernetes-patch-merge-key": "containerPort", "x-kubernetes-patch-strategy": "merge",
            }),
        ),
        (
            "PodSpec",
            "volumes",
            json!({
                "type": "array", "items": {"default": {}, "allOf": [{"$ref": core("Volume")}]},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge,retainKeys",
            }),
        ),
        (
            "PodSpec",
            "nodeSelector",
            json!({
                "type": "object", "additionalProperties": {"type": "string", "default": ""}, "x-kubernetes-map-type": "atomic",
            }),
        ),
        (
            "ResourceRequirements",
            "limits",
            json!({
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            }),
        ),
        (
            "Secret",
            "data",
            json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}}),
        ),
        ("ContainerStatus", "ready", json!({"type": "boolean", "default": false})),
    ];
    for (of, field, want) in cases {
        let found = schema(&document, &format!("{CORE}.{of}"), &format!("/properties/{field}"));
        assert_eq!(found, want, "{of}.{field}");
    }
}

#[test]
fn types_that_are_no_objects() {
    let document = build::group_version(&kinds(""));
    let quantity = schema(&document, "io.k8s.apimachinery.pkg.api.resource.Quantity", "");
    assert_eq!(quantity, json!({"oneOf": [{"type": "string"}, {"type": "number"}]}));
    let either = schema(&document, "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "");
    assert_eq!(either["format"], "int-or-string");
    let time = schema(&document, &format!("{META}.Time"), "");
    assert_eq!(time, json!({"type": "string", "format": "date-time"}));
    let selector = schema(&document, &format!("{CORE}.NodeSelector"), "");
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
}

#[test]
fn what_is_required_stands_in_the_order_of_the_type() {
    let document = build::group_version(&kinds(""));
    let status = schema(&document, &format!("{CORE}.ContainerStatus"), "");
    assert_eq!(status["required"], json!(["name", "ready", "restartCount", "image", "imageID"]));
    let claim = schema(&document, &format!("{CORE}.PersistentVolumeClaim"), "");
    assert_eq!(claim.get("required"), None, "metadata may be left out");
}

#[test]
fn kinds_lists_and_options_are_marked_as_such() {
    let document = build::group_version(&kinds("storage.k8s.io"));
    let kind = |name: &str| json!({"group": "storage.k8s.io", "kind": name, "version": "v1"});
    for name in ["CSINode", "CSINodeList"] {
        let found = schema(&document, &format!("io.k8s.api.storage.v1.{name}"), "");
        assert_eq!(found["x-kubernetes-group-version-kind"], json!([kind(name)]));
    }
    let options = schema(&document, &format!("{META}.DeleteOptions"), "");
    let core = json!({"group": "", "kind": "DeleteOptions", "version": "v1"});
    assert_eq!(options["x-kubernetes-group-version-kind"], json!([core, kind("DeleteOptions")]));
}

#[test]
fn descriptions_come_with_the_types_and_name_the_values() {
    let document = build::group_version(&kinds(""));
    let spec = &document["components"]["schemas"][format!("{CORE}.PersistentVolumeClaimSpec")];
    let fields = spec["properties"].as_object().unwrap();
    let described =
        fields.values().filter(|field| field["description"].as_str().is_some_and(|d| d.len() > 20));
    assert_eq!(described.count(), fields.len());
    let mode = spec["properties"]["volumeMode"]["description"].as_str().unwrap();
    assert!(mode.ends_with("\n\nPossible enum values:\n - `\"Block\"`\n - `\"Filesystem\"`"), "{mode}");
    let modes = spec["properties"]["accessModes"]["description"].as_str().unwrap();
    assert!(!modes.contains("Possible enum"), "{modes}");
}
