use serde_json::json;

use super::*;

fn schema() -> Schema {
    Schema::parse(&json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "s": {"type": "string"},
                "free": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "object", "properties": {"z": {"type": "string"}}}},
                },
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "template": {
                    "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
                },
                "pruned": {"type": "object"},
                "nul": {"type": "string", "nullable": true},
                "dft": {"type": "string", "default": "d"},
                "inner": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 7}}},
            }},
        },
    }))
    .unwrap()
}

#[test]
fn what_the_schema_does_not_know_goes() {
    let table = [
        (json!({"spec": {"s": "x", "t": 1}, "u": 1}), json!({"spec": {"s": "x"}}), vec!["spec.t", "u"]),
        (
            json!({"spec": {"free": {"a": 1, "known": {"z": "q", "y": 1}}}}),
            json!({"spec": {"free": {"a": 1, "known": {"z": "q"}}}}),
            vec!["spec.free.known.y"],
        ),
        (json!({"spec": {"any": [{"a": {"b": 1}}]}}), json!({"spec": {"any": [{"a": {"b": 1}}]}}), vec![]),
        (
            json!({"spec": {"list": [{"a": "1", "b": 1}, {"c": 1}]}}),
            json!({"spec": {"list": [{"a": "1"}, {}]}}),
            vec!["spec.list[0].b", "spec.list[1].c"],
        ),
        (
            json!({"spec": {"map": {"k": {"a": "1", "b": 1}}}}),
            json!({"spec": {"map": {"k": {"a": "1"}}}}),
            vec!["spec.map.k.b"],
        ),
        (
            json!({"spec": {"template": {"kind": "K", "metadata": {"name": "n"}, "spec": {"a": 1}, "x": 1}}}),
            json!({"spec": {"template": {"kind": "K", "metadata": {"name": "n"}, "spec": {}}}}),
            vec!["spec.template.spec.a", "spec.template.x"],
        ),
        (
            json!({"spec": {"pruned": {"metadata": 1}}}),
            json!({"spec": {"pruned": {}}}),
            vec!["spec.pruned.metadata"],
        ),
        (
            json!({"apiVersion": "v", "kind": "K", "metadata": {"name": "n"}}),
            json!({"apiVersion": "v", "kind": "K", "metadata": {"name": "n"}}),
            vec![],
        ),
    ];
    for (object, want, paths) in table {
        let mut pruned = object.clone();
        assert_eq!(prune(&mut pruned, &schema()), paths, "{object}");
        assert_eq!(pruned, want, "{object}");
    }
}

#[test]
fn nulls_and_defaults() {
    let table = [
        (json!({"spec": {}}), json!({"spec": {"dft": "d", "inner": {"x": 7}}})),
        (
            json!({"spec": {"s": null, "nul": null, "dft": null, "inner": {"x": null}}}),
            json!({"spec": {"nul": null, "dft": "d", "inner": {"x": 7}}}),
        ),
        (
            json!({"spec": {"any": {"x": null}, "dft": "e"}}),
            json!({"spec": {"any": {"x": null}, "dft": "e", "inner": {"x": 7}}}),
        ),
        (json!({}), json!({})),
    ];
    for (object, want) in table {
        let mut filled = object.clone();
        prune_nulls(&mut filled, Some(&schema()));
        assert!(fill_defaults(&mut filled, &schema(), 1000));
        assert_eq!(filled, want, "{object}");
    }
}
