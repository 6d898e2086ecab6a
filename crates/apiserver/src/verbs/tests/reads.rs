use http::Method;
use serde_json::{Value, json};

use crate::testing::*;

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn selectors() {
    let server = server().await;
    post(&server, "/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await.ok();
    for (namespace, name, node, tier) in
        [("default", "a", "n1", "web"), ("default", "b", "n2", "db"), ("other", "c", "n1", "web")]
    {
        let mut object = pod(name);
        object["spec"]["nodeName"] = node.into();
        object["metadata"]["labels"] = json!({"tier": tier});
        post(&server, &format!("/api/v1/namespaces/{namespace}/pods"), &object).await.ok();
    }
    let cases = [
        ("/api/v1/pods", vec!["a", "b", "c"]),
        ("/api/v1/namespaces/default/pods", vec!["a", "b"]),
        ("/api/v1/pods?labelSelector=tier%20in%20(web)", vec!["a", "c"]),
        ("/api/v1/pods?labelSelector=tier!=web", vec!["b"]),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", vec!["a", "c"]),
        ("/api/v1/pods?fieldSelector=spec.nodeName!=n1,metadata.namespace=default", vec!["b"]),
        ("/api/v1/pods?fieldSelector=metadata.name=c&labelSelector=tier", vec!["c"]),
    ];
    for (path, want) in cases {
        let list = get(&server, path).await.ok();
        assert_eq!((list["kind"].as_str(), names(&list)), (Some("PodList"), want), "{path}");
    }
    let unknown = get(&server, "/api/v1/pods?fieldSelector=spec.foo=x").await;
    assert_eq!(
        (unknown.code, unknown.body["message"].as_str().unwrap()),
        (400, "field label not supported: spec.foo")
    );
    let unknown = get(&server, "/api/v1/configmaps?fieldSelector=spec.foo=x").await;
    assert_eq!(
        unknown.body["message"],
        r#""spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace""#
    );
}

#[tokio::test]
async fn pages_show_the_first_pages_state() {
    let server = server().await;
    for name in ["a", "b", "c", "d", "e"] {
        post(&server, CONFIGMAPS, &configmap(name)).await.ok();
    }
    let first = get(&server, &format!("{CONFIGMAPS}?limit=2")).await.ok();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    delete(&server, &format!("{CONFIGMAPS}/d"), None).await.ok();
    post(&server, CONFIGMAPS, &configmap("cc")).await.ok();
    let mut token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let mut seen = Vec::new();
    while !token.is_empty() {
        let page = get(&server, &format!("{CONFIGMAPS}?limit=2&continue={token}")).await.ok();
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        seen.extend(names(&page).into_iter().map(str::to_owned));
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(seen, ["c", "d", "e"]);

    let exact = format!("{CONFIGMAPS}?resourceVersionMatch=Exact&resourceVersion={}", version(&first));
    assert_eq!(names(&get(&server, &exact).await.ok()), ["a", "b", "c", "d", "e"]);
    assert_eq!(names(&get(&server, CONFIGMAPS).await.ok()), ["a", "b", "c", "cc", "e"]);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}?continue=%21")).await.code, 400);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}?resourceVersionMatch=Exact")).await.code, 422);
    assert_eq!(
        get(&server, &format!("{CONFIGMAPS}?resourceVersionMatch=Exact&resourceVersion=1")).await.code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn the_future_is_waited_for_a_little() {
    let server = server().await;
    let next = server.store().version() + 1;
    let path = format!("{CONFIGMAPS}?resourceVersion={next}");
    let object = configmap("a");
    let (list, _) = tokio::join!(get(&server, &path), post(&server, CONFIGMAPS, &object));
    assert_eq!(names(&list.ok()), ["a"]);
    let started = tokio::time::Instant::now();
    for path in [CONFIGMAPS.to_owned(), format!("{CONFIGMAPS}/a")] {
        let answer = get(&server, &format!("{path}?resourceVersion={}", next + 100)).await;
        assert_eq!(answer.code, 504);
        assert_eq!(answer.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(answer.body["details"]["retryAfterSeconds"], 1);
    }
    assert_eq!(started.elapsed().as_secs(), 6);
}

#[tokio::test]
async fn other_forms() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let one = send(&server, Method::GET, &format!("{CONFIGMAPS}/a"), table, None).await.ok();
    assert_eq!((&one["kind"], &one["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(one["columnDefinitions"][0]["name"], "Name");
    assert_eq!(one["rows"][0]["cells"], json!(["a"]));
    assert_eq!(one["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let list =
        send(&server, Method::GET, &format!("{CONFIGMAPS}?includeObject=Object"), table, None).await.ok();
    assert_eq!(list["rows"][0]["object"]["data"]["a"], "1");
    assert!(list["metadata"]["resourceVersion"].is_string());
    let none =
        send(&server, Method::GET, &format!("{CONFIGMAPS}?includeObject=None"), table, None).await.ok();
    assert!(none["rows"][0]["object"].is_null());

    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = send(&server, Method::GET, CONFIGMAPS, partial, None).await.ok();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(
        (&list["items"][0]["metadata"]["name"], &list["items"][0]["data"]),
        (&json!("a"), &Value::Null)
    );
    let unknown = send(&server, Method::GET, CONFIGMAPS, "application/x-tar", None).await;
    assert_eq!(unknown.code, 406);
    let sent = Some(("application/x-tar", vec![1]));
    assert_eq!(send(&server, Method::POST, CONFIGMAPS, "*/*", sent).await.code, 415);
}

/// What a client of upstream's Go library sends and reads by default.
#[tokio::test]
async fn objects_travel_as_protobuf() {
    const BINARY: &str = "application/vnd.kubernetes.protobuf";
    let server = server().await;
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "binary"}, "data": {"a": "b"},
    });
    let sent = Some((BINARY, crate::protobuf::encode(&object).expect("has a schema")));
    let created = send(&server, Method::POST, CONFIGMAPS, BINARY, sent).await;
    assert_eq!(created.code, 201);
    let read = |body: &[u8]| {
        let envelope = crate::protobuf::open(body, ("", "")).expect("an envelope");
        envelope.object().expect("readable")
    };
    assert_eq!(read(&created.bytes)["data"], object["data"]);
    let list = send(&server, Method::GET, CONFIGMAPS, BINARY, None).await;
    let list = read(&list.bytes);
    assert_eq!((&list["kind"], &list["items"][0]["data"]), (&json!("ConfigMapList"), &object["data"]));
    let broken = send(&server, Method::POST, CONFIGMAPS, "*/*", Some((BINARY, vec![1]))).await;
    assert_eq!(broken.code, 400);
    let gone = format!("{CONFIGMAPS}/binary");
    let options =
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let mut options_as_v1 = options.clone();
    options_as_v1["apiVersion"] = json!("v1");
    let sent = Some((BINARY, crate::protobuf::encode(&options_as_v1).expect("has a schema")));
    assert_eq!(send(&server, Method::DELETE, &gone, BINARY, sent).await.code, 200);
}

#[tokio::test]
async fn paths_that_lead_nowhere() {
    let server = server().await;
    let unknown = get(&server, "/api/v1/namespaces/default/widgets").await;
    assert_eq!(
        (unknown.code, unknown.body["message"].as_str().unwrap()),
        (404, "the server could not find the requested resource")
    );
    assert_eq!(unknown.body["details"], json!({}));
    assert_eq!(get(&server, "/apis/nobody.example.com/v1/widgets").await.body, json!("404 page not found\n"));
    assert_eq!(get(&server, "/nothing").await.body, json!("404 page not found\n"));
    assert_eq!(
        get(&server, "/api/v1/namespaces/default/namespaces").await.code,
        404,
        "a namespace has no namespace"
    );
    assert_eq!(get(&server, "/api/v1/pods/x").await.code, 404, "a pod needs one");
    assert_eq!(post(&server, "/api/v1/pods", &pod("x")).await.code, 405);
    assert_eq!(post(&server, &format!("{PODS}/x"), &pod("x")).await.code, 405);
    assert_eq!(put(&server, PODS, &pod("x")).await.code, 405);
}

#[tokio::test]
async fn discovery() {
    let server = server().await;
    assert_eq!(get(&server, "/api").await.ok()["versions"], json!(["v1"]));
    assert_eq!(
        get(&server, "/apis").await.ok()["groups"][0]["preferredVersion"]["groupVersion"],
        "storage.k8s.io/v1"
    );
    assert_eq!(get(&server, "/apis/storage.k8s.io").await.ok()["kind"], "APIGroup");
    let core = get(&server, "/api/v1").await.ok();
    let named: Vec<&str> =
        core["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(
        named,
        [
            "configmaps",
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "pods/binding",
            "pods/ephemeralcontainers",
            "pods/eviction",
            "pods/exec",
            "pods/log",
            "pods/resize",
            "pods/status"
        ]
    );
    assert_eq!(get(&server, "/apis/storage.k8s.io/v2").await.code, 404);

    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let all = send(&server, Method::GET, "/apis", accept, None).await.ok();
    assert_eq!(all["items"][0]["metadata"]["name"], "storage.k8s.io");
    assert_eq!(all["items"][0]["versions"][0]["resources"][0]["resource"], "csidrivers");
    assert_eq!(get(&server, "/version").await.ok()["gitVersion"], "v1.36.0+bowline");
    assert_eq!(get(&server, "/readyz").await.body, json!("ok"));
    let index = get(&server, "/openapi/v3").await.ok();
    assert!(index["paths"]["apis/storage.k8s.io/v1"]["serverRelativeURL"].is_string());
    let document = get(&server, "/openapi/v3/api/v1").await.ok();
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "ConfigMap");
}

/// As upstream's server answered.
#[tokio::test]
async fn reads_that_make_no_sense() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let number = "strconv.ParseUint: parsing \"x\": invalid syntax";
    let table = [
        ("?timeoutSeconds=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        ("?resourceVersion=x", 400, format!("invalid resource version: resourceVersion: Invalid value: \"x\": {number}")),
        ("?watch=1&resourceVersion=x", 500, format!("resourceVersion: Invalid value: \"x\": {number}")),
        ("/a?resourceVersion=x", 500, format!("resourceVersion: Invalid value: \"x\": {number}")),
        ("/a%2Fb", 404, "the server could not find the requested resource".to_owned()),
        (
            "?continue=e30",
            400,
            "invalid continue token: continue key is not valid: server does not recognize this encoded version ".to_owned(),
        ),
        ("?fieldSelector=a%3Db%3Dc", 400, "invalid field selector: unescaped character in value: 61".to_owned()),
    ];
    for (rest, code, message) in table {
        let answer = get(&server, &format!("{CONFIGMAPS}{rest}")).await;
        assert_eq!((answer.code, &answer.body["message"]), (code, &json!(message)), "{rest}");
    }
    let key = "?labelSelector=-%3Dx";
    let answer = get(&server, &format!("{CONFIGMAPS}{key}")).await;
    let message = answer.body["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("unable to parse requirement: <nil>: Invalid value: \"-\": name part"),
        "{message}"
    );
}
