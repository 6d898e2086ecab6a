use http::Method;
use serde_json::json;

use crate::testing::{delete, full_server, get, patch, post, put, send};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment() -> serde_json::Value {
    json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
        },
    })
}

#[tokio::test]
async fn replicas_of_anything() {
    let server = full_server().await;
    let created = post(&server, DEPLOYMENTS, &deployment()).await.ok();
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = get(&server, &path).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 1}), &json!({"replicas": 0, "selector": "app=d"}))
    );

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = send(&server, Method::GET, &path, accept, None).await.ok();
    let names: Vec<_> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["d", 1, 0, "0s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");

    let three = put(&server, &path, &json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}})).await.ok();
    assert_eq!(three["spec"]["replicas"], 3);
    let whole = get(&server, &format!("{DEPLOYMENTS}/d")).await.ok();
    assert_eq!((&whole["spec"]["replicas"], &whole["metadata"]["generation"]), (&json!(3), &json!(2)));
    assert_eq!(whole["spec"]["template"], created["spec"]["template"]);
    for (kind, body, want) in [
        ("merge", json!({"spec": {"replicas": 4}}), 4),
        ("strategic-merge", json!({"spec": {"replicas": 5}}), 5),
        ("json", json!([{"op": "replace", "path": "/spec/replicas", "value": 6}]), 6),
    ] {
        assert_eq!(patch(&server, &path, kind, &body).await.ok()["spec"]["replicas"], want, "{kind}");
    }
    let record = get(&server, &format!("{DEPLOYMENTS}/d")).await.ok()["metadata"]["managedFields"].clone();
    let scaler = record.as_array().unwrap().iter().find(|entry| entry["subresource"] == "scale").unwrap();
    assert_eq!(
        (&scaler["time"], &scaler["fieldsV1"]),
        (&json!(null), &json!({"f:spec": {"f:replicas": {}}}))
    );
    let none = put(&server, &path, &json!({"metadata": {"name": "d"}, "spec": {}})).await.ok();
    assert_eq!((&none["spec"], &none["status"]["replicas"]), (&json!({}), &json!(0)));
}

#[tokio::test]
async fn refused() {
    let server = full_server().await;
    post(&server, DEPLOYMENTS, &deployment()).await.ok();
    let path = format!("{DEPLOYMENTS}/d/scale");
    let with = |metadata: serde_json::Value, replicas: i64| json!({"metadata": metadata, "spec": {"replicas": replicas}});
    let table = [
        (
            with(json!({"name": "d"}), -1),
            422,
            "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            with(json!({}), 1),
            400,
            "the name of the object (d based on URL) was undeterminable: name must be provided",
        ),
        (
            with(json!({"name": "e"}), 1),
            400,
            "the name of the object (e) does not match the name on the URL (d)",
        ),
        (
            with(json!({"name": "d", "resourceVersion": "1"}), 1),
            409,
            "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please apply your changes to the latest version and try again",
        ),
    ];
    for (body, code, want) in table {
        let answer = put(&server, &path, &body).await;
        assert_eq!((answer.code, answer.body["message"].as_str().unwrap()), (code, want));
    }
    let strict = put(
        &server,
        &format!("{path}?fieldValidation=Strict"),
        &json!({"metadata": {"name": "d"}, "spec": {"x": 1}}),
    )
    .await;
    assert_eq!(
        strict.body["message"],
        "Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: unknown field \"spec.x\""
    );
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 4}});
    assert_eq!(patch(&server, &path, "merge", &stale).await.code, 409);
    assert_eq!(get(&server, &format!("{DEPLOYMENTS}/e/scale")).await.code, 404);
    assert_eq!(delete(&server, &path, None).await.code, 405);
    let daemons = "/apis/apps/v1/namespaces/default/daemonsets/x/scale";
    assert_eq!(send(&server, Method::GET, daemons, "application/json", None).await.code, 404);
}
