//! Server-side apply and the record of fields, as clients see them.

use http::Method;
use serde_json::{Value, json};

use crate::Server;
use crate::testing::*;

const APPLY: &str = "application/apply-patch+yaml";

async fn apply(server: &Server, path: &str, body: &str) -> Answer {
    send(server, Method::PATCH, path, "application/json", Some((APPLY, body.as_bytes().to_vec()))).await
}

fn record(object: &Value) -> Vec<Value> {
    object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default()
}

fn managers(object: &Value) -> Vec<(String, String)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    record(object).iter().map(|entry| (text(entry, "manager"), text(entry, "operation"))).collect()
}

fn pair(manager: &str, operation: &str) -> (String, String) {
    (manager.to_owned(), operation.to_owned())
}

#[tokio::test]
async fn applying_creates_and_then_changes() {
    let server = server().await;
    let path = format!("{CONFIGMAPS}/a?fieldManager=me");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: z}}\ndata: {k: v}\n";
    let created = apply(&server, &path, text).await;
    assert_eq!(created.code, 201);
    let created = created.ok();
    let want = json!([{
        "manager": "me", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}},
    }]);
    assert_eq!(created["metadata"]["managedFields"], want);

    let again = apply(&server, &path, text).await;
    assert_eq!((again.code, &again.body), (200, &created), "nothing changed, not even the version");

    // JSON is YAML.
    let json =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "w"}});
    let changed = apply(&server, &path, &json.to_string()).await.ok();
    assert_eq!((&changed["data"], &changed["metadata"]["labels"]), (&json!({"k": "w"}), &Value::Null));

    let other = format!("{CONFIGMAPS}/a?fieldManager=you");
    let refused = apply(&server, &other, &json.to_string().replace("\"w\"", "\"x\"")).await;
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
        "message": "Apply failed with 1 conflict: conflict with \"me\": .data.k",
        "details": {"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"me\"", "field": ".data.k"},
        ]},
    });
    assert_eq!(refused.body, want);
    let forced =
        apply(&server, &format!("{other}&force=true"), &json.to_string().replace("\"w\"", "\"x\"")).await;
    assert_eq!(managers(&forced.ok()), [pair("you", "Apply")]);
}

#[tokio::test]
async fn a_dry_run_applies_nothing() {
    let server = server().await;
    let path = format!("{CONFIGMAPS}/a?fieldManager=me&dryRun=All");
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    assert_eq!(apply(&server, &path, text).await.code, 201);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a")).await.code, 404);
}

#[tokio::test]
async fn refused_applies() {
    let server = server().await;
    let path = format!("{CONFIGMAPS}/a");
    let head = "apiVersion: v1\nkind: ConfigMap\n";
    let named = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let cases = [
        (
            "",
            named.to_owned(),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        ("?fieldManager=m", String::new(), 400, "invalid object type: /, Kind="),
        ("?fieldManager=m", "kind: ConfigMap".into(), 400, "invalid object type: /, Kind=ConfigMap"),
        ("?fieldManager=m", "apiVersion: v1\nkind: Pod".into(), 400, "invalid object type: /v1, Kind=Pod"),
        (
            "?fieldManager=m",
            head.into(),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            "?fieldManager=m",
            format!("{head}metadata: {{name: c}}"),
            400,
            "the name of the object (c) does not match the name on the URL (a)",
        ),
        (
            "?fieldManager=m",
            format!("{head}metadata: {{name: a, namespace: c}}"),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "?fieldManager=m",
            format!("{head}metadata: {{managedFields: []}}"),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "?fieldManager=m",
            format!("{head}data2: {{a: c}}"),
            500,
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): .data2: field not declared in schema",
        ),
        (
            "?fieldManager=m",
            "a: *x".into(),
            400,
            "error decoding YAML: error converting YAML to JSON: yaml: unknown anchor 'x' referenced",
        ),
        (
            "?fieldManager=m",
            "[]".into(),
            400,
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "?fieldManager=m&fieldValidation=Strict",
            format!("{named}data: {{a: b, a: c}}"),
            400,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 4: key \"a\" already set in map",
        ),
    ];
    for (query, body, code, message) in cases {
        let answer = apply(&server, &format!("{path}{query}"), &body).await;
        assert_eq!((answer.code, &answer.body["message"]), (code, &json!(message)), "{query} {body}");
    }
    let warned =
        apply(&server, &format!("{path}?fieldManager=m"), &format!("{named}data: {{a: b, a: c}}")).await;
    assert_eq!(warned.warnings, [r#"299 - "line 4: key \"a\" already set in map""#]);
    let status = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: {phase: Running}";
    assert_eq!(apply(&server, &format!("{PODS}/p/status?fieldManager=m"), status).await.code, 404);
}

#[tokio::test]
async fn parameters_of_writes() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let long = "x".repeat(129);
    let path = format!("{CONFIGMAPS}/a");
    let cases = [
        (format!("fieldManager={long}"), "fieldManager: Too long: may not be more than 128 bytes"),
        (
            "fieldManager=a%01b".to_owned(),
            "fieldManager: Invalid value: \"a\\x01b\": invalid character U+0001 (at position 1)",
        ),
        ("force=true".to_owned(), "force: Forbidden: may not be specified for non-apply patch"),
        ("dryRun=x".to_owned(), "dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
        (
            "fieldValidation=x".to_owned(),
            "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
    ];
    for (query, why) in cases {
        let answer = patch(&server, &format!("{path}?{query}"), "merge", &json!({})).await;
        let want = format!("PatchOptions.meta.k8s.io \"\" is invalid: {why}");
        assert_eq!((answer.code, &answer.body["message"]), (422, &json!(want)));
    }
    let answer = post(&server, &format!("{CONFIGMAPS}?dryRun=x"), &configmap("b")).await;
    let want = "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"x\"]: supported values: \"All\"";
    assert_eq!((answer.code, &answer.body["message"]), (422, &json!(want)));
    let answer = put(&server, &format!("{path}?dryRun=x"), &configmap("a")).await;
    assert_eq!((answer.code, &answer.body["details"]["kind"]), (422, &json!("UpdateOptions")));
}

#[tokio::test]
async fn each_write_is_recorded_with_its_subresource() {
    let server = server().await;
    post(&server, &format!("{PODS}?fieldManager=creator"), &pod("p")).await.ok();
    let path = format!("{PODS}/p");
    let status = json!({"status": {"phase": "Running"}, "spec": {"hostname": "no"}});
    let object = patch(&server, &format!("{path}/status?fieldManager=kubelet"), "merge", &status).await.ok();
    let entries = record(&object);
    assert_eq!(managers(&object), [pair("creator", "Update"), pair("kubelet", "Update")]);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(entries[1]["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
    let applied = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: {message: hello}";
    let object = apply(&server, &format!("{path}/status?fieldManager=a"), applied).await.ok();
    assert_eq!(record(&object)[0]["fieldsV1"], json!({"f:status": {"f:message": {}}}));
    assert_eq!(record(&object)[0]["subresource"], "status");
    assert_eq!(object["status"]["phase"], "Running");

    let bound = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    post(&server, &format!("{path}/binding?fieldManager=scheduler"), &bound).await.ok();
    let bound = get(&server, &path).await.ok();
    assert_eq!(record(&bound), record(&object), "nobody owns an assignment");

    let same = put(&server, &format!("{path}?fieldManager=other"), &bound).await.ok();
    assert_eq!(same, bound, "an update of nothing writes nothing");
}

/// kubectl rewrites the record with a JSON patch when an object moves to server-side apply.
#[tokio::test]
async fn kubectl_may_take_over_client_side_apply() {
    let server = server().await;
    let path = format!("{CONFIGMAPS}/a");
    let created =
        post(&server, &format!("{CONFIGMAPS}?fieldManager=kubectl-client-side-apply"), &configmap("a"))
            .await
            .ok();
    let mut entries = record(&created);
    entries[0]["manager"] = "kubectl".into();
    entries[0]["operation"] = "Apply".into();
    let operations = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": created["metadata"]["resourceVersion"]},
    ]);
    let moved = patch(&server, &path, "json", &operations).await.ok();
    assert_eq!(managers(&moved), [pair("kubectl", "Apply")]);
    assert_eq!(patch(&server, &path, "json", &operations).await.code, 409, "made for an older version");

    let reset = patch(&server, &path, "merge", &json!({"metadata": {"managedFields": [{}]}})).await.ok();
    assert_eq!(record(&reset), Vec::<Value>::new());
    let changed = patch(&server, &path, "merge", &json!({"data": {"n": "1"}})).await.ok();
    assert_eq!(record(&changed), Vec::<Value>::new(), "it stays off until the next apply");
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: '2'}}";
    let refused = apply(&server, &format!("{path}?fieldManager=me"), text).await;
    let want = "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a";
    assert_eq!((refused.code, &refused.body["message"]), (409, &json!(want)));
}

#[tokio::test]
async fn an_apply_may_name_a_version() {
    let server = server().await;
    let path = format!("{CONFIGMAPS}/a?fieldManager=me");
    let text = |version: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, resourceVersion: '{version}'}}, data: {{v: '{version}'}}}}"
        )
    };
    let created = apply(&server, &path, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await;
    assert_eq!(created.code, 201);
    assert_eq!(apply(&server, &path, &text("1")).await.code, 409);
    assert_eq!(apply(&server, &path, &text(&created.version().to_string())).await.code, 200);
}
