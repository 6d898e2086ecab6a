//! Whole requests through subresources of pods, and what a start-up makes.

use serde_json::json;

use crate::testing::{PODS, full_server, get, patch, pod, post, put};

#[tokio::test]
async fn containers_to_look_around_with_and_new_sizes() {
    let server = full_server().await;
    let mut object = pod("a");
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    post(&server, PODS, &object).await.ok();
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "sh"}], "nodeName": "n"}});
    let path = format!("{PODS}/a/ephemeralcontainers");
    let stored = patch(&server, &path, "strategic-merge", &debug).await.ok();
    assert_eq!(stored["spec"]["ephemeralContainers"][0]["terminationMessagePolicy"], "File");
    assert_eq!((&stored["spec"]["nodeName"], &stored["metadata"]["generation"]), (&json!(null), &json!(2)));
    assert_eq!(get(&server, &path).await.ok(), stored);
    let more = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}});
    let resized = patch(&server, &format!("{PODS}/a/resize"), "strategic-merge", &more).await.ok();
    assert_eq!(
        (
            &resized["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            &resized["metadata"]["generation"]
        ),
        (&json!("2"), &json!(3))
    );
    let main = patch(&server, &format!("{PODS}/a"), "strategic-merge", &more).await;
    assert_eq!(main.code, 200, "nothing changes any more");
    let other = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}});
    assert_eq!(patch(&server, &format!("{PODS}/a"), "strategic-merge", &other).await.code, 422);
}

#[tokio::test]
async fn binding_answers_as_upstream() {
    let server = full_server().await;
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    post(&server, PODS, &gated).await.ok();
    post(&server, PODS, &pod("a")).await.ok();
    let to = |name: &str| json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
    let refused = post(&server, &format!("{PODS}/gated/binding"), &to("gated")).await;
    assert_eq!(
        refused.body["message"],
        "Operation cannot be fulfilled on pods/binding \"gated\": pod gated has non-empty .spec.schedulingGates"
    );
    let bound = post(&server, &format!("{PODS}/a/binding"), &to("a")).await;
    assert_eq!((bound.code, bound.body["code"].as_u64()), (201, Some(201)));
}

/// Each answer is what kube-apiserver v1.36.3 gave.
#[tokio::test]
async fn a_binding_is_read_as_one() {
    let server = full_server().await;
    let mut own = pod("a");
    own["metadata"]["labels"] = json!({"own": "1", "zone": "old"});
    let made = post(&server, PODS, &own).await.ok();
    let path = format!("{PODS}/a/binding");
    let (version, uid) = (&made["metadata"]["resourceVersion"], &made["metadata"]["uid"]);
    let (version, uid) = (version.as_str().unwrap(), uid.as_str().unwrap());
    let storage = "Operation cannot be fulfilled on pods \"a\": StorageError: invalid object, Code: 4, Key: /registry/pods/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ";
    let foreign = " in version \"v1\" cannot be handled as a Binding: ";
    let name_differs = "name in URL does not match name in Binding object";
    let cases = [
        (
            json!({"metadata": {"name": "a", "resourceVersion": "1"}}),
            409,
            format!("{storage}ResourceVersion in precondition: 1, ResourceVersion in object meta: {version}"),
        ),
        (
            json!({"metadata": {"name": "a", "resourceVersion": "1", "uid": "u"}}),
            409,
            format!("{storage}UID in precondition: u, UID in object meta: {uid}"),
        ),
        (
            json!({"metadata": {"name": "a", "annotations": {"a": 1}}}),
            400,
            format!(
                "Binding{foreign}json: cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations of type string"
            ),
        ),
        (
            json!({"kind": "Pod", "metadata": {"name": "a"}}),
            400,
            format!("Pod{foreign}converting (v1.Pod) to (core.Binding): unknown conversion"),
        ),
        (
            json!({"kind": "Foo", "metadata": {"name": "a"}}),
            400,
            format!(
                "Foo{foreign}no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\""
            ),
        ),
        (
            json!({"metadata": {"name": "a", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request".into(),
        ),
        (json!({"metadata": {}}), 400, name_differs.into()),
        (json!({"metadata": {"name": "x"}}), 400, name_differs.into()),
    ];
    for (mut body, code, message) in cases {
        body["target"] = json!({"kind": "Node", "name": "n"});
        let answer = post(&server, &path, &body).await;
        assert_eq!((answer.code, &answer.body["message"]), (code, &json!(message)), "{body}");
    }

    let labels = json!({"zone": "z", "topology.kubernetes.io/zone": "z"});
    let body = json!({
        "metadata": {"name": "a", "resourceVersion": version, "uid": uid, "labels": labels},
        "target": {"name": "n"}, "foo": 1,
    });
    let strict = post(&server, &format!("{path}?fieldValidation=Strict"), &body).await;
    let why = format!("Binding{foreign}strict decoding error: unknown field \"foo\"");
    assert_eq!((strict.code, &strict.body["message"]), (400, &json!(why)));
    let bound = post(&server, &path, &body).await;
    assert_eq!((bound.code, bound.warnings.len()), (201, 1), "{}", bound.body);
    let object = get(&server, &format!("{PODS}/a")).await.ok();
    assert_eq!(
        object["metadata"]["labels"],
        json!({"own": "1", "zone": "z", "topology.kubernetes.io/zone": "z"})
    );
}

#[tokio::test]
async fn priorities_come_with_the_cluster() {
    let server = full_server().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let critical = get(&server, &format!("{classes}/system-node-critical")).await.ok();
    assert_eq!((&critical["value"], &critical["metadata"]["generation"]), (&json!(2_000_001_000), &json!(1)));
    let plain = post(&server, PODS, &pod("a")).await.ok();
    assert_eq!(
        (&plain["spec"]["priority"], &plain["spec"]["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );
    post(&server, classes, &json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true}))
        .await
        .ok();
    let usual = post(&server, PODS, &pod("b")).await.ok();
    assert_eq!(
        (&usual["spec"]["priority"], &usual["spec"]["priorityClassName"]),
        (&json!(7), &json!("usual"))
    );
    let second =
        post(&server, classes, &json!({"metadata": {"name": "other"}, "value": 8, "globalDefault": true}))
            .await;
    assert_eq!(
        second.body["message"],
        "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist"
    );
    let mut named = pod("c");
    named["spec"]["priorityClassName"] = "nope".into();
    let refused = post(&server, PODS, &named).await;
    assert_eq!(refused.body["message"], "pods \"c\" is forbidden: no PriorityClass with name nope was found");
    // Clients that do not know the fields may not lose them.
    let mut blind = plain.clone();
    blind["spec"].as_object_mut().unwrap().remove("priority");
    assert_eq!(put(&server, &format!("{PODS}/a"), &blind).await.ok()["spec"]["priority"], 0);
}

#[tokio::test]
async fn warnings_come_with_the_answer() {
    let server = full_server().await;
    let mut object = pod("a");
    object["spec"]["topologySpreadConstraints"] =
        json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]);
    let answer = post(&server, PODS, &object).await;
    assert_eq!(
        answer.warnings,
        [
            "299 - \"spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod\""
        ]
    );
    let listed = get(&server, "/api/v1/namespaces/default/endpoints").await;
    assert_eq!(
        listed.warnings,
        ["299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""]
    );
}
