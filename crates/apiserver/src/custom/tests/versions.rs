use serde_json::json;

use super::*;

fn versioned() -> Value {
    let old = json!({"type": "object", "properties": {"a": {"type": "string"}, "old": {"type": "string"}}});
    let new = json!({"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer", "default": 3}}});
    let mut beta = version("v1beta1", old);
    beta["deprecated"] = true.into();
    definition("widgets", "Widget", &[beta, version("v1", new)])
}

const BETA: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";

#[tokio::test]
async fn one_object_in_all_versions() {
    let server = server().await;
    post(&server, DEFINITIONS, &versioned()).await.ok();
    let group = get(&server, "/apis/example.com").await.ok();
    assert_eq!(
        group["preferredVersion"]["version"], "v1",
        "the newest first, whatever the definition begins with"
    );

    post(&server, WIDGETS, &widget("a", json!({"a": "x"}))).await.ok();
    let answer = get(&server, &format!("{BETA}/a")).await;
    assert_eq!(
        answer.warnings,
        ["299 - \"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget\""]
    );
    let beta = answer.ok();
    assert_eq!((&beta["apiVersion"], &beta["spec"]), (&json!("example.com/v1beta1"), &json!({"a": "x"})));

    let mut through_beta = widget("b", json!({"a": "y", "old": "z"}));
    through_beta["apiVersion"] = "example.com/v1beta1".into();
    let made = post(&server, BETA, &through_beta).await.ok();
    assert_eq!((&made["apiVersion"], &made["spec"]), (&json!("example.com/v1beta1"), &json!({"a": "y"})));
    let v1 = get(&server, &format!("{WIDGETS}/b")).await.ok();
    assert_eq!(
        v1["spec"],
        json!({"a": "y", "n": 3}),
        "stored as the storage version has it, defaults come at reading"
    );
    let changed = patch(&server, &format!("{BETA}/b"), "merge", &json!({"spec": {"a": "w"}})).await.ok();
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(get(&server, &format!("{WIDGETS}/b")).await.ok()["spec"]["a"], "w");
    let listed = get(&server, BETA).await.ok();
    assert_eq!(listed["apiVersion"], "example.com/v1beta1");
    assert!(
        listed["items"].as_array().unwrap().iter().all(|item| item["apiVersion"] == "example.com/v1beta1")
    );

    let mut watching = watch(&server, &format!("{BETA}?watch=1"), "*/*").await;
    assert_eq!(watching.next().await.unwrap()["object"]["apiVersion"], "example.com/v1beta1");
}

/// An update that changes nothing still writes an object that is stored in an older form: this is how storage moves on.
#[tokio::test]
async fn storage_moves_on() {
    let server = server().await;
    let mut first = versioned();
    first["spec"]["versions"][0]["storage"] = true.into();
    first["spec"]["versions"][1]["storage"] = false.into();
    post(&server, DEFINITIONS, &first).await.ok();
    let mut made = post(&server, WIDGETS, &widget("a", json!({"a": "x"}))).await.ok();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let swap = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    let swapped = patch(&server, &path, "json", &swap).await.ok();
    assert_eq!(swapped["status"]["storedVersions"], json!(["v1beta1", "v1"]));
    let dropped = patch(&server, &path, "json", &json!([{"op": "remove", "path": "/spec/versions/0"}])).await;
    assert!(dropped.body["message"].as_str().unwrap().contains("v1beta1 was previously a storage version"));

    let before = get(&server, &format!("{WIDGETS}/a")).await;
    made["metadata"]["resourceVersion"] = before.body["metadata"]["resourceVersion"].clone();
    let moved = put(&server, &format!("{WIDGETS}/a"), &made).await;
    assert!(moved.version() > before.version(), "written anew");
    let again = put(&server, &format!("{WIDGETS}/a"), &moved.body).await;
    assert_eq!(again.version(), moved.version(), "once");

    patch(&server, &format!("{path}/status"), "merge", &json!({"status": {"storedVersions": ["v1"]}}))
        .await
        .ok();
    patch(&server, &path, "json", &json!([{"op": "remove", "path": "/spec/versions/0"}])).await.ok();
    assert_eq!(get(&server, BETA).await.code, 404);
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await.ok()["spec"]["a"], "x");
}

/// Watches of a kind that is defined anew end, so that clients look again.
#[tokio::test]
async fn a_change_of_the_schema_shows_at_once() {
    let server = server().await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    post(&server, WIDGETS, &widget("a", json!({"x": 1, "y": 2}))).await.ok();
    let mut watching = watch(&server, &format!("{WIDGETS}?watch=1"), "*/*").await;
    watching.next().await.unwrap();
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}, "d": {"type": "string", "default": "dd"}}});
    let change = json!([{"op": "replace", "path": "/spec/versions/0", "value": version("v1", schema)}]);
    patch(&server, &format!("{DEFINITIONS}/widgets.example.com"), "json", &change).await.ok();
    assert_eq!(watching.next().await, None);
    let read = get(&server, &format!("{WIDGETS}/a")).await.ok();
    assert_eq!(read["spec"], json!({"x": 1, "d": "dd"}));
    assert_eq!(get(&server, WIDGETS).await.ok()["items"][0]["spec"], read["spec"]);
}

#[tokio::test]
async fn columns_selectors_and_scale() {
    let server = server().await;
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}, "color": {"type": "string"}}});
    let mut v1 = version("v1", schema);
    v1["additionalPrinterColumns"] = json!([
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    v1["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    v1["subresources"] = json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    post(&server, DEFINITIONS, &definition("widgets", "Widget", &[v1])).await.ok();
    post(&server, WIDGETS, &widget("a", json!({"color": "red", "n": 2}))).await.ok();
    post(&server, WIDGETS, &widget("b", json!({"color": "blue"}))).await.ok();

    let table =
        send(&server, http::Method::GET, WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io", None)
            .await
            .ok();
    let names: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "Color", "N", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "red", 2, "0s"]));
    assert_eq!(table["rows"][1]["cells"], json!(["b", "blue", null, "0s"]));
    let red = get(&server, &format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).await.ok();
    assert_eq!(red["items"].as_array().unwrap().len(), 1);
    let resources = get(&server, "/apis/example.com/v1").await.ok();
    let scale =
        resources["resources"].as_array().unwrap().iter().find(|r| r["name"] == "widgets/scale").unwrap();
    assert_eq!((&scale["kind"], &scale["group"]), (&json!("Scale"), &json!("autoscaling")));
}

#[tokio::test]
async fn applied_by_key() {
    let server = server().await;
    let item = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
    }});
    post(&server, DEFINITIONS, &definition("widgets", "Widget", &[version("v1", schema)])).await.ok();
    let path = format!("{WIDGETS}/a");
    let apply = async |manager: &str, list: Value| {
        let body = widget("a", json!({"list": list})).to_string().into_bytes();
        let path = format!("{path}?fieldManager={manager}");
        send(
            &server,
            http::Method::PATCH,
            &path,
            "application/json",
            Some(("application/apply-patch+yaml", body)),
        )
        .await
    };
    assert_eq!(apply("one", json!([{"k": "a", "v": "1"}])).await.code, 201);
    let both = apply("two", json!([{"k": "b", "v": "2"}])).await.ok();
    assert_eq!(both["spec"]["list"], json!([{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]));
    let conflict = apply("two", json!([{"k": "a", "v": "9"}])).await;
    assert_eq!(conflict.code, 409, "{}", conflict.body);
    let stranger = apply("one", json!([{"k": "a", "w": "1"}])).await;
    assert!(
        stranger.body["message"].as_str().unwrap().contains("field not declared in schema"),
        "{}",
        stranger.body
    );
}

/// As everywhere, what a definition fills in today counts for objects of yesterday.
#[tokio::test]
async fn the_scale_of_an_object_that_is_older_than_a_default() {
    let server = server().await;
    let with = |number: Value| {
        let mut v1 = version("v1", json!({"type": "object", "properties": {"n": number}}));
        let paths = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
        v1["subresources"] = json!({"scale": paths});
        definition("widgets", "Widget", &[v1])
    };
    post(&server, DEFINITIONS, &with(json!({"type": "integer"}))).await.ok();
    post(&server, WIDGETS, &widget("a", json!({}))).await.ok();
    let scale = format!("{WIDGETS}/a/scale");
    assert_eq!(get(&server, &scale).await.code, 500, "nobody says how many");
    let change = with(json!({"type": "integer", "default": 3}));
    let path = format!("{DEFINITIONS}/widgets.example.com");
    patch(&server, &path, "merge", &json!({"spec": {"versions": change["spec"]["versions"]}})).await.ok();
    assert_eq!(get(&server, &scale).await.ok()["spec"]["replicas"], 3);
}
