//! What pods may ask for: PodSecurity, privileged containers and runtime classes, through the service.

use serde_json::{Value, json};

use crate::Server;
use crate::kinds::plugins::{POD_SECURITY, Plugins};
use crate::kinds::register::{register, register_admission_of};
use crate::registry::Registry;
use crate::store::Store;
use crate::testing::*;

const TEAM: &str = "/api/v1/namespaces/team";
const TEAM_PODS: &str = "/api/v1/namespaces/team/pods";
const TEAM_DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/team/deployments";
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const RUNTIME_CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

fn team(labels: Value) -> Value {
    json!({"metadata": {"name": "team", "labels": labels}})
}

async fn with_team(labels: Value) -> Server {
    let server = full_server().await;
    post(&server, "/api/v1/namespaces", &team(labels)).await.ok();
    server
}

fn on_host(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["hostNetwork"] = true.into();
    pod
}

fn deployment(spec: &Value) -> Value {
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

#[tokio::test]
async fn pods_that_violate_the_enforced_level_are_refused() {
    let server = with_team(json!({(ENFORCE): "baseline"})).await;
    let refused = post(&server, TEAM_PODS, &on_host("p")).await;
    let why = r#"pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)"#;
    assert_eq!((refused.code, &refused.body["message"]), (403, &json!(why)));
    post(&server, TEAM_PODS, &pod("p")).await.ok();
    post(&server, PODS, &on_host("p")).await.ok();
    let generated = json!({"metadata": {"generateName": "g-"}, "spec": on_host("g")["spec"]});
    assert_eq!(post(&server, TEAM_PODS, &generated).await.code, 403);
    // A client that is refused still hears what its kind warns of.
    let mut odd = pod("q");
    odd["spec"]["hostIPC"] = true.into();
    odd["spec"]["containers"][0]["ports"] = json!([{"containerPort": 1}, {"containerPort": 1}]);
    let refused = post(&server, TEAM_PODS, &odd).await;
    assert_eq!((refused.code, refused.warnings.len()), (403, 1), "{:?}", refused.warnings);
}

#[tokio::test]
async fn objects_that_make_pods_are_warned_of() {
    let server = with_team(json!({(ENFORCE): "baseline"})).await;
    let made = post(&server, TEAM_DEPLOYMENTS, &deployment(&on_host("x")["spec"])).await;
    let warning =
        r#"299 - "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)""#;
    assert_eq!((made.code, made.warnings), (201, vec![warning.to_owned()]));
    let (path, two) = (format!("{TEAM_DEPLOYMENTS}/d/scale"), json!({"spec": {"replicas": 2}}));
    let scaled = patch(&server, &path, "merge", &two).await;
    assert_eq!(scaled.code, 200);
    assert_eq!(scaled.warnings, Vec::<String>::new(), "the template is none of a scale's business");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = patch(&server, &format!("{TEAM_DEPLOYMENTS}/d"), "merge", &labelled).await;
    assert_eq!((changed.code, changed.warnings), (200, vec![warning.to_owned()]));
}

#[tokio::test]
async fn a_stricter_namespace_tells_of_the_pods_in_it() {
    let server = with_team(json!({})).await;
    for name in ["b", "a"] {
        post(&server, TEAM_PODS, &on_host(name)).await.ok();
    }
    let labels = json!({"metadata": {"labels": {(ENFORCE): "baseline"}}});
    let changed = patch(&server, TEAM, "merge", &labels).await;
    let expected = [
        r#"299 - "existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"""#,
        r#"299 - "a (and 1 other pod): host namespaces""#,
    ];
    assert_eq!((changed.code, changed.warnings), (200, expected.map(str::to_owned).to_vec()));
    let wrong = patch(&server, TEAM, "merge", &json!({"metadata": {"labels": {(ENFORCE): "strict"}}})).await;
    let why = r#"Namespace "team" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted"#;
    assert_eq!((wrong.code, &wrong.body["message"]), (422, &json!(why)));
    // What is there stays and may change, but for what runs in it.
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(patch(&server, &format!("{TEAM_PODS}/a"), "merge", &labelled).await.code, 200);
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]);
    assert_eq!(patch(&server, &format!("{TEAM_PODS}/a"), "json", &image).await.code, 403);
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "i"}]}});
    let path = format!("{TEAM_PODS}/a/ephemeralcontainers");
    assert_eq!(patch(&server, &path, "strategic-merge", &debug).await.code, 403);
}

#[tokio::test]
async fn pod_security_can_be_turned_off() {
    let mut registry = Registry::new();
    register(&mut registry);
    let off = ["ServiceAccount", POD_SECURITY].map(str::to_owned);
    register_admission_of(&mut registry, &Plugins::chosen(&[], &off).unwrap());
    let server = Server::new(Store::memory(), registry, clock(), random());
    server.bootstrap().await.unwrap();
    post(&server, "/api/v1/namespaces", &team(json!({(ENFORCE): "restricted"}))).await.ok();
    post(&server, TEAM_PODS, &on_host("p")).await.ok();
}

/// Paths of fields and the objects that have a privileged container there.
fn privileged() -> Vec<(&'static str, &'static str, Value)> {
    let privileged = json!({"privileged": true});
    let one = |name: &str| json!({"name": name, "image": "i", "securityContext": privileged});
    let mut own = pod("p");
    own["spec"]["containers"] = json!([one("c")]);
    let mut init = pod("p");
    init["spec"]["initContainers"] = json!([one("c")]);
    let job = json!({"restartPolicy": "Never", "containers": [one("c")]});
    let job = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": job}}}});
    vec![
        (TEAM_PODS, "spec.containers[0]", own.clone()),
        (TEAM_PODS, "spec.initContainers[0]", init),
        (TEAM_DEPLOYMENTS, "spec.template.spec.containers[0]", deployment(&own["spec"])),
        (
            "/apis/batch/v1/namespaces/team/cronjobs",
            "spec.jobTemplate.spec.template.spec.containers[0]",
            json!({"metadata": {"name": "c"}, "spec": job}),
        ),
    ]
}

#[tokio::test]
async fn privileged_containers_need_a_server_that_allows_them() {
    let server = with_team(json!({})).await;
    for (path, field, object) in privileged() {
        let refused = post(&server, path, &object).await;
        let cause = json!([{
            "reason": "FieldValueForbidden", "message": "Forbidden: disallowed by cluster policy",
            "field": format!("{field}.securityContext.privileged"),
        }]);
        assert_eq!((refused.code, &refused.body["details"]["causes"]), (422, &cause), "{}", refused.body);
    }
    let process = json!({"windowsOptions": {"hostProcess": true}});
    let mut windows = on_host("w");
    windows["spec"]["securityContext"] = process;
    let refused = post(&server, TEAM_PODS, &windows).await;
    let why =
        r#"Pod "w" is invalid: spec: Forbidden: hostProcess containers are disallowed by cluster policy"#;
    assert_eq!((refused.code, &refused.body["message"]), (422, &json!(why)));

    post(&server, TEAM_PODS, &pod("plain")).await.ok();
    let debug = json!({"spec": {"ephemeralContainers": [
        {"name": "debug", "image": "i", "securityContext": {"privileged": true}}]}});
    let path = format!("{TEAM_PODS}/plain/ephemeralcontainers");
    assert_eq!(patch(&server, &path, "strategic-merge", &debug).await.code, 422);

    server.set_allow_privileged(true);
    patch(&server, &path, "strategic-merge", &debug).await.ok();
    for (path, field, mut object) in privileged() {
        object["metadata"]["name"] = format!("n{}", field.len()).into();
        post(&server, path, &object).await.ok();
    }
    post(&server, TEAM_PODS, &windows).await.ok();

    // What was allowed once can still be changed, and go.
    server.set_allow_privileged(false);
    for (path, field, _) in privileged() {
        let path = format!("{path}/n{}", field.len());
        patch(&server, &path, "merge", &json!({"metadata": {"finalizers": ["a/b"]}})).await.ok();
        patch(&server, &path, "merge", &json!({"metadata": {"finalizers": null}})).await.ok();
    }
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    patch(&server, &format!("{TEAM_PODS}/w"), "merge", &label).await.ok();
    let more = json!({"spec": {"ephemeralContainers": [
        {"name": "more", "image": "i", "securityContext": {"privileged": true}}]}});
    let path = format!("{TEAM_PODS}/plain/ephemeralcontainers");
    assert_eq!(patch(&server, &path, "strategic-merge", &more).await.code, 422);
}

#[tokio::test]
async fn pods_get_what_their_runtime_class_asks_for() {
    let server = with_team(json!({})).await;
    let message =
        |answer: Answer| (answer.code, answer.body["message"].as_str().unwrap_or_default().to_owned());
    let with = |name: &str, spec: Value| {
        let mut pod = pod(name);
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let missing = post(&server, TEAM_PODS, &with("p", json!({"runtimeClassName": "gone"}))).await;
    let why = r#"pods "p" is forbidden: pod rejected: RuntimeClass "gone" not found"#;
    assert_eq!(message(missing), (403, why.to_owned()));

    let toleration = json!({"key": "vm", "operator": "Exists", "effect": "NoSchedule"});
    let class = json!({
        "metadata": {"name": "vm"}, "handler": "kata",
        "overhead": {"podFixed": {"cpu": "500m"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [toleration]},
    });
    post(&server, RUNTIME_CLASSES, &class).await.ok();
    post(&server, RUNTIME_CLASSES, &json!({"metadata": {"name": "bare"}, "handler": "runc"})).await.ok();
    let narrow = json!({"key": "vm", "operator": "Equal", "value": "a", "effect": "NoSchedule"});
    let asked = json!({"runtimeClassName": "vm", "nodeSelector": {"a": "b"}, "tolerations": [narrow]});
    let spec = post(&server, TEAM_PODS, &with("p", asked)).await.ok()["spec"].clone();
    assert_eq!(spec["overhead"], json!({"cpu": "500m"}));
    assert_eq!(spec["nodeSelector"], json!({"a": "b", "vm": "yes"}));
    let tolerations = spec["tolerations"].as_array().unwrap();
    assert!(tolerations.contains(&toleration) && !tolerations.contains(&narrow), "{tolerations:?}");

    let table = [
        (
            json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"runtimeClassName": "bare", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
        ),
    ];
    for (spec, why) in table {
        let refused = post(&server, TEAM_PODS, &with("q", spec)).await;
        assert_eq!(message(refused), (403, format!("pods \"q\" is forbidden: {why}")));
    }
    post(&server, TEAM_PODS, &with("r", json!({"runtimeClassName": "vm", "overhead": {"cpu": "0.5"}})))
        .await
        .ok();
    post(&server, TEAM_PODS, &with("s", json!({"runtimeClassName": "bare"}))).await.ok();
}

#[tokio::test]
async fn runtime_classes_obey_rules() {
    let server = full_server().await;
    let same = json!({"key": "a", "operator": "Exists"});
    let table = [
        (json!({}), vec!["handler: Required value"]),
        (
            json!({"handler": "A b"}),
            vec![
                "handler: Invalid value: \"A b\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        ),
        (
            json!({"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}}, "scheduling": {"tolerations": [same, same]}}),
            vec![
                "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "scheduling.tolerations[1]: Duplicate value: {\"Key\":\"a\",\"Operator\":\"Exists\",\"Value\":\"\",\"Effect\":\"\",\"TolerationSeconds\":null}",
            ],
        ),
    ];
    for (mut class, errors) in table {
        class["metadata"] = json!({"name": "c"});
        let refused = post(&server, RUNTIME_CLASSES, &class).await;
        let causes = refused.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |cause: &Value| {
            format!("{}: {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap())
        };
        assert_eq!(causes.iter().map(text).collect::<Vec<_>>(), errors, "{}", refused.body);
    }
}
