//! Options of a deletion, as a real server of the same version answers to them.

use serde_json::{Value, json};

use crate::testing::*;

async fn deleted(options: &str, body: Option<Value>) -> Answer {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    delete(&server, &format!("{CONFIGMAPS}/a{options}"), body).await
}

#[tokio::test]
async fn a_policy_becomes_a_finalizer() {
    for (query, finalizer) in [
        ("?propagationPolicy=Foreground", "foregroundDeletion"),
        ("?propagationPolicy=Orphan", "orphan"),
        ("?orphanDependents=true", "orphan"),
        ("?orphanDependents=", "orphan"),
    ] {
        let held = deleted(query, None).await.ok();
        assert_eq!(held["kind"], "ConfigMap", "{query}");
        assert_eq!(held["metadata"]["finalizers"], json!([finalizer]), "{query}");
        assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0, "{query}");
    }
    for query in ["", "?propagationPolicy=Background", "?orphanDependents=false", "?gracePeriodSeconds=-1"] {
        assert_eq!(deleted(query, None).await.ok()["status"], "Success", "{query}");
    }
}

#[tokio::test]
async fn a_body_makes_the_query_count_for_nothing() {
    let gone = deleted("?propagationPolicy=Foreground&dryRun=Bogus", Some(json!({}))).await.ok();
    assert_eq!(gone["status"], "Success");
    let held = deleted("?propagationPolicy=Background", Some(json!({"orphanDependents": true}))).await.ok();
    assert_eq!(held["metadata"]["finalizers"], json!(["orphan"]));
}

#[tokio::test]
async fn bad_options() {
    let policy =
        r#"Unsupported value: "Bogus": supported values: "Foreground", "Background", "Orphan", "nil""#;
    let cases = [
        ("?propagationPolicy=Bogus", None, 422, format!(r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {policy}"#)),
        ("", Some(json!({"propagationPolicy": "Bogus", "orphanDependents": false})), 422, format!(
            r#"DeleteOptions.meta.k8s.io "" is invalid: [propagationPolicy: Invalid value: "Bogus": orphanDependents and deletionPropagation cannot be both set, propagationPolicy: {policy}]"#
        )),
        ("?dryRun=Some", None, 422, r#"DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All""#.into()),
        ("?gracePeriodSeconds=abc", None, 400, r#"strconv.ParseInt: parsing "abc": invalid syntax"#.into()),
        ("", Some(json!({"gracePeriodSeconds": "x"})), 400, "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64".into()),
        ("", Some(json!({"gracePeriodSeconds": 1.5})), 400, "json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64".into()),
        ("", Some(json!({"dryRun": [1]})), 400, "json: cannot unmarshal number into Go struct field DeleteOptions.dryRun of type string".into()),
        ("", Some(json!({"preconditions": {"uid": 1}})), 400, "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID".into()),
        ("", Some(json!({"kind": "Pod", "apiVersion": "v1"})), 400, r#"no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#.into()),
    ];
    for (query, body, code, message) in cases {
        let answer = deleted(query, body.clone()).await;
        assert_eq!(
            (answer.code, answer.body["message"].as_str().unwrap()),
            (code, message.as_str()),
            "{query} {body:?}"
        );
    }
}

#[tokio::test]
async fn a_dry_run_shows_what_would_be() {
    let server = server().await;
    let created = post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let path = format!("{CONFIGMAPS}/a");
    let options = json!({"dryRun": ["All"], "propagationPolicy": "Foreground"});
    let shown = delete(&server, &path, Some(options)).await.ok();
    assert_eq!(shown["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(shown["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(get(&server, &path).await.ok(), created);
}

#[tokio::test]
async fn a_later_policy_replaces_an_earlier_one() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let path = format!("{CONFIGMAPS}/a");
    let with = |policy: &str| format!("{path}?propagationPolicy={policy}");
    let first = delete(&server, &with("Foreground"), None).await.ok();
    assert_eq!(delete(&server, &path, None).await.ok(), first, "a second delete writes nothing");
    assert_eq!(delete(&server, &with("Foreground"), None).await.ok(), first);
    let second = delete(&server, &with("Orphan"), None).await.ok();
    assert_eq!(second["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(second["metadata"]["deletionTimestamp"], first["metadata"]["deletionTimestamp"]);
    assert_eq!(delete(&server, &with("Background"), None).await.ok()["status"], "Success");
    assert_eq!(get(&server, &path).await.code, 404);
}

#[tokio::test]
async fn many_with_a_policy_and_a_page() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        post(&server, CONFIGMAPS, &configmap(name)).await.ok();
    }
    let before = get(&server, CONFIGMAPS).await.version();
    let page =
        delete(&server, &format!("{CONFIGMAPS}?limit=2&propagationPolicy=Foreground"), None).await.ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(version(&page), before, "the version of the list, not of the deletions");
    let left = get(&server, CONFIGMAPS).await.ok();
    let held: Vec<bool> = left["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["finalizers"].is_array())
        .collect();
    assert_eq!(held, [true, true, false]);
    assert_eq!(delete(&server, &format!("{CONFIGMAPS}?propagationPolicy=Bogus"), None).await.code, 422);
}

#[tokio::test]
async fn a_namespace_keeps_the_finalizer_of_its_policy() {
    let server = server().await;
    let namespace = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}});
    post(&server, "/api/v1/namespaces", &namespace).await.ok();
    let held = delete(&server, "/api/v1/namespaces/n?propagationPolicy=Foreground", None).await.ok();
    assert_eq!(held["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(held["metadata"]["deletionGracePeriodSeconds"].is_null());
    let free = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
    patch(&server, "/api/v1/namespaces/n", "json", &free).await.ok();
    assert_eq!(get(&server, "/api/v1/namespaces/n").await.code, 404);
}

#[tokio::test]
async fn owners_that_stand_twice_are_warned_of() {
    let server = server().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let mut object = configmap("a");
    object["metadata"]["ownerReferences"] = json!([owner, owner]);
    let answer = post(&server, CONFIGMAPS, &object).await;
    assert!(
        answer.warnings[0].contains("contains duplicate entries; API server dedups"),
        "{:?}",
        answer.warnings
    );
    assert_eq!(answer.ok()["metadata"]["ownerReferences"], json!([owner]));
    let twice = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}]);
    let answer = patch(&server, &format!("{CONFIGMAPS}/a"), "json", &twice).await;
    assert!(answer.warnings[0].contains("duplicate entries after mutating admission happens;"));
}

/// A job leaves its pods behind, unless it goes with its namespace.
#[tokio::test]
async fn jobs_leave_pods_behind() {
    let server = full_server().await;
    post(&server, "/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    const JOBS: &str = "/apis/batch/v1/namespaces/n/jobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}});
    for name in ["a", "b"] {
        let job = json!({"metadata": {"name": name}, "spec": {"template": template}});
        post(&server, JOBS, &job).await.ok();
    }
    let held = delete(&server, &format!("{JOBS}/a"), None).await.ok();
    assert_eq!(held["metadata"]["finalizers"], json!(["orphan"]));
    delete(&server, "/api/v1/namespaces/n", None).await.ok();
    assert_eq!(get(&server, &format!("{JOBS}/b")).await.code, 404, "nobody is left to let it go");
}
