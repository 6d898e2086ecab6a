//! `metadata` of objects whose schema says nothing about it: checked against its type.

use serde_json::Value;

use super::go_type::{Field, INT64, STRING, Shape, Struct, field, kept, read};

const UID: Shape = Shape::Text("types.UID");

pub static OBJECT_META: Struct = Struct { name: "ObjectMeta", fields: OBJECT_META_FIELDS };

const OBJECT_META_FIELDS: &[Field] = &[
    field("name", STRING),
    field("generateName", STRING),
    field("namespace", STRING),
    field("selfLink", STRING),
    field("uid", UID),
    field("resourceVersion", STRING),
    field("generation", INT64),
    field("creationTimestamp", Shape::Time),
    field("deletionTimestamp", Shape::Time),
    kept("deletionGracePeriodSeconds", INT64),
    field("labels", Shape::TextMap),
    field("annotations", Shape::TextMap),
    field("ownerReferences", Shape::List(&OWNER)),
    field("finalizers", Shape::Texts),
    field("managedFields", Shape::List(&MANAGED)),
];

static OWNER: Struct = Struct {
    name: "OwnerReference",
    fields: &[
        kept("apiVersion", STRING),
        kept("kind", STRING),
        kept("name", STRING),
        kept("uid", UID),
        kept("controller", Shape::Bool),
        kept("blockOwnerDeletion", Shape::Bool),
    ],
};

static MANAGED: Struct = Struct {
    name: "ManagedFieldsEntry",
    fields: &[
        field("manager", STRING),
        field("operation", Shape::Text("v1.ManagedFieldsOperationType")),
        field("apiVersion", STRING),
        field("time", Shape::Time),
        field("fieldsType", STRING),
        kept("fieldsV1", Shape::Raw),
        field("subresource", STRING),
    ],
};

/// Metadata as its type has it: unknown and empty fields are gone, the former are listed with their paths.
pub fn coerce(metadata: &Value, unknown: &mut Vec<String>) -> Result<Value, String> {
    read(metadata, &OBJECT_META, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn table() {
        let good = [
            (json!({"name": "a", "labels": {}, "creationTimestamp": null}), json!({"name": "a"}), vec![]),
            (json!({"name": "a", "x": 1}), json!({"name": "a"}), vec!["x"]),
            (
                json!({"ownerReferences": [{"name": "o", "y": 1}]}),
                json!({"ownerReferences": [{"name": "o"}]}),
                vec!["ownerReferences[0].y"],
            ),
            (
                json!({"creationTimestamp": "2026-01-01T01:00:00.5+01:00"}),
                json!({"creationTimestamp": "2026-01-01T00:00:00Z"}),
                vec![],
            ),
            (Value::Null, json!({}), vec![]),
            (
                json!({"labels": {"a": null, "b": "c"}, "finalizers": [null, "x/y"], "ownerReferences": [null]}),
                json!({"labels": {"a": "", "b": "c"}, "finalizers": ["", "x/y"], "ownerReferences": [{}]}),
                vec![],
            ),
        ];
        for (metadata, want, paths) in good {
            let mut unknown = Vec::new();
            assert_eq!(coerce(&metadata, &mut unknown), Ok(want), "{metadata}");
            assert_eq!(unknown, paths, "{metadata}");
        }
        let field = |found: &str, field: &str, type_: &str| {
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {type_}")
        };
        let bad = [
            (json!({"labels": {"a": 5}}), field("number", "ObjectMeta.labels", "string")),
            (json!({"generation": "x"}), field("string", "ObjectMeta.generation", "int64")),
            (json!("x"), "json: cannot unmarshal string into Go value of type v1.ObjectMeta".into()),
            (
                json!({"creationTimestamp": "x"}),
                "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"".into(),
            ),
            (
                json!({"ownerReferences": [{"controller": "x"}]}),
                field("string", "OwnerReference.ownerReferences.controller", "bool"),
            ),
        ];
        for (metadata, want) in bad {
            assert_eq!(coerce(&metadata, &mut Vec::new()), Err(want), "{metadata}");
        }
    }
}
