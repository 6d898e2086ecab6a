use super::*;
use serde_json::json;

/// The kind decides how lists merge.
fn typed(mut object: Value, kind: &str) -> Value {
    object["apiVersion"] = "v1".into();
    object["kind"] = kind.into();
    object
}

#[test]
fn table() {
    let cases = [
        (
            "fields merge",
            json!({"spec": {"a": 1, "b": 2}}),
            json!({"spec": {"b": 3}}),
            json!({"spec": {"a": 1, "b": 3}}),
        ),
        (
            "null deletes",
            json!({"spec": {"a": 1, "b": 2}}),
            json!({"spec": {"b": null}}),
            json!({"spec": {"a": 1}}),
        ),
        (
            "containers merge by name, their ports by number",
            json!({"spec": {"containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80, "name": "x"}]}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "2", "ports": [{"containerPort": 80, "name": "y"}, {"containerPort": 81}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "2", "ports": [{"containerPort": 80, "name": "y"}, {"containerPort": 81}]}, {"name": "b"}]}}),
        ),
        (
            "an element is deleted",
            json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"volumes": [{"name": "a", "$patch": "delete"}]}}),
            json!({"spec": {"volumes": [{"name": "b"}]}}),
        ),
        (
            "a list is replaced on request",
            json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"volumes": [{"$patch": "replace"}, {"name": "c"}]}}),
            json!({"spec": {"volumes": [{"name": "c"}]}}),
        ),
        (
            "an object is replaced on request",
            json!({"spec": {"a": 1, "b": 2}}),
            json!({"spec": {"$patch": "replace", "c": 3}}),
            json!({"spec": {"c": 3}}),
        ),
        (
            "an object is emptied",
            json!({"spec": {"a": {"b": 1}}}),
            json!({"spec": {"a": {"$patch": "delete"}}}),
            json!({"spec": {"a": {}}}),
        ),
        (
            "only the kept keys stay",
            json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}),
            json!({"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/x"}}]}}),
        ),
        (
            "finalizers are a set",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["b", "c"]}}),
            json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
        ),
        (
            "members of a set are deleted",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
        ),
        (
            "tolerations and taints are replaced",
            json!({"spec": {"tolerations": [{"key": "a"}], "taints": [{"key": "a", "effect": "NoExecute"}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}], "taints": []}}),
            json!({"spec": {"tolerations": [{"key": "b"}], "taints": []}}),
        ),
        (
            "conditions merge by type",
            json!({"status": {"conditions": [{"type": "Resizing", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "Resizing", "status": "False"}, {"type": "X", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "Resizing", "status": "False"}, {"type": "X", "status": "True"}]}}),
        ),
        (
            "newcomers come before what the patch does not name, and after what stands before others it names",
            json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}, {"type": "C"}]}}),
            json!({"status": {"conditions": [{"type": "B", "status": "True"}, {"type": "X"}]}}),
            json!({"status": {"conditions": [{"type": "A"}, {"type": "B", "status": "True"}, {"type": "X"}, {"type": "C"}]}}),
        ),
        (
            "a newcomer alone comes first",
            json!({"status": {"conditions": [{"type": "A"}]}, "metadata": {"finalizers": ["a"]}}),
            json!({"status": {"conditions": [{"type": "X"}]}, "metadata": {"finalizers": ["x"]}}),
            json!({"status": {"conditions": [{"type": "X"}, {"type": "A"}]}, "metadata": {"finalizers": ["x", "a"]}}),
        ),
        (
            "what is deleted holds no place for what comes instead",
            json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"volumes": [{"name": "c"}, {"name": "a", "$patch": "delete"}]}}),
            json!({"spec": {"volumes": [{"name": "c"}, {"name": "b"}]}}),
        ),
        (
            "an order is applied, with newcomers",
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}], "containers": [{"name": "c"}]}}),
            json!({"spec": {"containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]}}),
        ),
        (
            "volumesAttached is replaced",
            json!({"status": {"volumesAttached": [{"name": "a", "devicePath": ""}]}}),
            json!({"status": {"volumesAttached": [{"name": "b", "devicePath": ""}]}}),
            json!({"status": {"volumesAttached": [{"name": "b", "devicePath": ""}]}}),
        ),
        (
            "owners merge by uid",
            json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2", "name": "b"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}]}}),
        ),
        (
            "directives do not leak into new content",
            json!({}),
            json!({"spec": {"a": {"$retainKeys": ["x", "y"], "x": 1, "y": null}}}),
            json!({"spec": {"a": {"x": 1}}}),
        ),
    ];
    for (name, object, patch, want) in cases {
        let kind = if object["status"]["volumesAttached"].is_array() { "Node" } else { "Pod" };
        assert_eq!(apply(typed(object, kind), &patch).unwrap(), typed(want, kind), "{name}");
    }
}

#[test]
fn the_kind_decides_how_lists_merge() {
    let secrets = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let account = typed(json!({"secrets": secrets(&["a"])}), "ServiceAccount");
    let merged = apply(account, &json!({"secrets": secrets(&["b"])})).unwrap();
    assert_eq!(merged["secrets"], secrets(&["b", "a"]));
    let mut node = json!({"spec": {"drivers": [{"name": "d", "nodeID": "1", "topologyKeys": ["x"]}]}});
    (node["apiVersion"], node["kind"]) = (json!("storage.k8s.io/v1"), json!("CSINode"));
    let merged = apply(node, &json!({"spec": {"drivers": [{"name": "d", "nodeID": "2"}]}})).unwrap();
    let want = json!([{"name": "d", "nodeID": "2", "topologyKeys": ["x"]}]);
    assert_eq!(merged["spec"]["drivers"], want);
}

#[test]
fn an_element_cannot_ask_to_be_merged() {
    let patch = json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}});
    let refused = apply(typed(json!({}), "Pod"), &patch).expect_err("refused");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (500, "merging lists cannot yet be specified in the patch")
    );
}

#[test]
fn a_missing_merge_key_is_refused() {
    let patch = json!({"spec": {"containers": [{"image": "x"}]}});
    let pod = typed(json!({"spec": {"containers": [{"name": "a"}]}}), "Pod");
    assert_eq!(apply(pod, &patch).unwrap_err().code, 500);
    let merged = apply(typed(json!({}), "Pod"), &patch).expect("there is nothing to merge with");
    assert_eq!(merged["spec"], patch["spec"]);
}

/// Sorting by places that are looked for one by one, or looking for each in all, would take minutes here.
#[test]
fn long_lists() {
    const LONG: usize = 100_000;
    let names =
        |range: std::ops::Range<usize>| range.map(|n| Value::from(format!("x/{n}"))).collect::<Vec<_>>();
    let object = typed(json!({"metadata": {"finalizers": names(0..LONG)}}), "Pod");
    let patch = json!({"metadata": {"finalizers": names(1..LONG + 1)}});
    let merged = apply(object.clone(), &patch).unwrap();
    assert_eq!(merged["metadata"]["finalizers"], Value::from(names(0..LONG + 1)));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": names(1..LONG)}});
    assert_eq!(apply(object, &patch).unwrap()["metadata"]["finalizers"], json!(["x/0"]));

    let volumes = |range: std::ops::Range<usize>, more: Value| {
        let volume = |n| {
            let mut volume = more.clone();
            volume["name"] = format!("{n}").into();
            volume
        };
        Value::from(range.map(volume).collect::<Vec<_>>())
    };
    let object = typed(json!({"spec": {"volumes": volumes(0..LONG, json!({"a": 1}))}}), "Pod");
    let patch = json!({"spec": {"volumes": volumes(0..LONG, json!({"b": 2}))}});
    let merged = apply(object.clone(), &patch).unwrap();
    assert_eq!(merged["spec"]["volumes"], volumes(0..LONG, json!({"a": 1, "b": 2})));
    let patch = json!({"spec": {"volumes": volumes(1..LONG, json!({"$patch": "delete"}))}});
    assert_eq!(apply(object, &patch).unwrap()["spec"]["volumes"], json!([{"name": "0", "a": 1}]));
}
