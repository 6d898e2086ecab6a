use serde_json::json;

use super::*;
use crate::kinds::pod::PodRules;

#[test]
fn what_a_bare_pod_becomes() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "busybox"}], "volumes": [{"name": "scratch"}]}, "status": {"phase": "Running"}});
    let stored = created::<PodRules>(&pod);
    let want = json!({
        "containers": [{
            "name": "main", "image": "busybox", "imagePullPolicy": "Always", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        }],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
        "securityContext": {}, "terminationGracePeriodSeconds": 30, "enableServiceLinks": true,
    });
    assert_eq!(stored["spec"], want);
    assert_eq!(stored["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

#[test]
fn pull_policy_follows_the_tag() {
    let table = [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("registry:5000/busybox", "Always"),
        ("registry:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:abc", "IfNotPresent"),
    ];
    for (image, want) in table {
        let stored = created::<PodRules>(
            &json!({"metadata": {}, "spec": {"containers": [{"name": "m", "image": image}]}}),
        );
        assert_eq!(stored["spec"]["containers"][0]["imagePullPolicy"], want, "{image}");
    }
    let never = json!({"metadata": {}, "spec": {"containers": [{"name": "m", "image": "a", "imagePullPolicy": "Never"}]}});
    assert_eq!(created::<PodRules>(&never)["spec"]["containers"][0]["imagePullPolicy"], "Never");
}

#[test]
fn parts_of_containers() {
    let container = json!({
        "name": "m", "image": "a:1", "ports": [{"containerPort": 80}],
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
    });
    let stored = created::<PodRules>(
        &json!({"metadata": {}, "spec": {"hostNetwork": true, "containers": [container]}}),
    );
    let one = &stored["spec"]["containers"][0];
    assert_eq!(one["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
    assert_eq!(one["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    let probe = json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    assert_eq!(one["livenessProbe"], probe);
    let amounts = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(one["resources"], json!({"limits": amounts, "requests": amounts}));
    assert_eq!(stored["status"]["qosClass"], "Guaranteed");
}

#[test]
fn parts_of_volumes() {
    let volumes = json!([
        {"name": "a", "secret": {"secretName": "s"}},
        {"name": "b", "configMap": {"name": "c"}},
        {"name": "c", "hostPath": {"path": "/x"}},
        {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}}},
        {"name": "f", "persistentVolumeClaim": {"claimName": "x"}},
    ]);
    let stored =
        created::<PodRules>(&json!({"metadata": {}, "spec": {"containers": [], "volumes": volumes}}));
    let want = json!([
        {"name": "a", "secret": {"secretName": "s", "defaultMode": 420}},
        {"name": "b", "configMap": {"name": "c", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/x", "type": ""}},
        {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}], "defaultMode": 420}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}}}},
        {"name": "f", "persistentVolumeClaim": {"claimName": "x"}},
    ]);
    assert_eq!(stored["spec"]["volumes"], want);
}

#[test]
fn account_under_both_names() {
    let account = |spec: Value| {
        let stored =
            created::<PodRules>(&json!({"metadata": {}, "spec": patched(&json!({"containers": []}), &spec)}));
        (stored["spec"]["serviceAccountName"].clone(), stored["spec"]["serviceAccount"].clone())
    };
    assert_eq!(account(json!({"serviceAccount": "old"})), (json!("old"), json!("old")));
    assert_eq!(
        account(json!({"serviceAccount": "old", "serviceAccountName": "new"})),
        (json!("new"), json!("new"))
    );
    assert_eq!(account(json!({})), (json!(null), json!(null)), "admission names the default");
}

#[test]
fn quality_of_service() {
    let pod = |resources: Value| json!({"metadata": {}, "spec": {"containers": [{"name": "m", "image": "a", "resources": resources}]}});
    let table = [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "0"}}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable"),
        (json!({"limits": {"example.com/gpu": "1"}}), "BestEffort"),
    ];
    for (resources, want) in table {
        assert_eq!(created::<PodRules>(&pod(resources.clone()))["status"]["qosClass"], want, "{resources}");
    }
}

#[test]
fn a_gated_pod_says_so() {
    let pod = json!({"metadata": {}, "spec": {"containers": [], "schedulingGates": [{"name": "example.com/wait"}]}});
    let condition = &created::<PodRules>(&pod)["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("PodScheduled"), &json!("SchedulingGated"))
    );
}
