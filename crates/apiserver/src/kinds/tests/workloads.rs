//! What the kinds that make pods from a template default to, refuse, keep and show.

use serde_json::json;

use super::*;
use crate::kinds::Dependents;
use crate::kinds::event::EventRules;
use crate::kinds::event_v1::EventV1Rules;
use crate::kinds::workload::daemonset::DaemonSetRules;
use crate::kinds::workload::deployment::DeploymentRules;
use crate::kinds::workload::job::JobRules;
use crate::kinds::workload::replicaset::ReplicaSetRules;
use crate::kinds::workload::replicationcontroller::ReplicationControllerRules;
use crate::kinds::workload::statefulset::StatefulSetRules;

pub fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}})
}

fn base() -> Value {
    json!({
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template()},
    })
}

fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

#[test]
fn templates_get_what_waits_for_no_pod() {
    let stored = created::<DeploymentRules>(&base());
    let pod = &stored["spec"]["template"]["spec"];
    assert_eq!((&pod["restartPolicy"], &pod["dnsPolicy"]), (&json!("Always"), &json!("ClusterFirst")));
    assert_eq!(pod["enableServiceLinks"], Value::Null);
    let limited = spec(
        json!({"template": {"spec": {"containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}]}}}),
    );
    let stored = created::<DeploymentRules>(&patched(&base(), &limited));
    assert_eq!(stored["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"], Value::Null);
}

#[test]
fn deployments() {
    let stored = created::<DeploymentRules>(&base());
    let spec_of = |field: &str| stored["spec"][field].clone();
    assert_eq!(spec_of("replicas"), 1);
    assert_eq!(
        spec_of("strategy"),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!(
        (spec_of("revisionHistoryLimit"), spec_of("progressDeadlineSeconds")),
        (json!(10), json!(600))
    );
    check_create::<DeploymentRules>(
        &base(),
        &[
            (
                "no selector",
                spec(json!({"selector": null})),
                &[
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                "other labels",
                spec(json!({"selector": {"matchLabels": {"app": "b"}}})),
                &[
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                "pods that end",
                spec(json!({"template": {"spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 5}}})),
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
                ],
            ),
            (
                "a bad pod",
                spec(json!({"template": {"spec": {"containers": [{"name": "A"}]}}})),
                &[
                    "spec.template.spec.containers[0].name: Invalid value: \"A\": a lowercase RFC 1123 label…",
                    "spec.template.spec.containers[0].image: Required value",
                ],
            ),
            (
                "nothing moves",
                spec(json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}})),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                "recreate does not roll",
                spec(json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}})),
                &[
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                ],
            ),
            (
                "strategy",
                spec(json!({"strategy": {"type": "X"}})),
                &[
                    "spec.strategy: Unsupported value: {\"Type\":\"X\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
                ],
            ),
            (
                "deadline",
                spec(json!({"progressDeadlineSeconds": 5, "minReadySeconds": 10})),
                &["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
            ),
        ],
    );
    let labels = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}});
    check_update::<DeploymentRules>(
        &base(),
        &[
            (
                "selector",
                labels,
                &["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"],
            ),
            ("the rest", spec(json!({"replicas": 3, "paused": true})), &[]),
        ],
    );
    check_status::<DeploymentRules>(
        &base(),
        &[(
            "counts",
            json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": -1}}),
            &[
                "status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ],
        )],
    );
    assert_eq!(
        header::<DeploymentRules>(),
        "NAME | READY | UP-TO-DATE | AVAILABLE | AGE | [CONTAINERS] | [IMAGES] | [SELECTOR]"
    );
    assert_eq!(row::<DeploymentRules>(&base()), "a | 0/1 | 0 | 0 | 10m | main | a:1 | app=a");
}

#[test]
fn a_status_brings_no_labels() {
    let new = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "status": {"replicas": 1}});
    let stored = reported::<DeploymentRules>(&new, &base());
    assert_eq!((&stored["metadata"]["labels"], &stored["status"]["replicas"]), (&Value::Null, &json!(1)));
    assert_eq!(stored["spec"]["selector"], base()["spec"]["selector"]);
}

#[test]
fn replica_sets_and_their_elders() {
    assert_eq!(row::<ReplicaSetRules>(&base()), "a | 1 | 0 | 0 | 10m | main | a:1 | app=a");
    check_create::<ReplicaSetRules>(
        &base(),
        &[(
            "negative",
            spec(json!({"replicas": -1, "minReadySeconds": -1})),
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        )],
    );
    let old = json!({"metadata": {"name": "a"}, "spec": {"template": template()}});
    let stored = created::<ReplicationControllerRules>(&old);
    assert_eq!(stored["spec"]["selector"], json!({"app": "a"}), "the template's labels");
    assert_eq!(stored["metadata"]["labels"], json!({"app": "a"}));
    check_create::<ReplicationControllerRules>(
        &old,
        &[
            (
                "no template",
                spec(json!({"template": null})),
                &["spec.selector: Required value", "spec.template: Required value"],
            ),
            (
                "other labels",
                spec(json!({"selector": {"app": "b"}})),
                &[
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
                ],
            ),
        ],
    );
    assert_eq!(labels::<ReplicationControllerRules>(&old), ["status.replicas=0"]);
}

#[test]
fn stateful_sets() {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}]);
    let mounted =
        json!([{"name": "main", "image": "a:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]);
    let base = patched(
        &base(),
        &spec(
            json!({"serviceName": "s", "volumeClaimTemplates": claims, "template": {"spec": {"containers": mounted}}}),
        ),
    );
    let stored = created::<StatefulSetRules>(&base)["spec"].clone();
    assert_eq!(stored["podManagementPolicy"], "OrderedReady");
    assert_eq!(stored["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    assert_eq!(
        stored["persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
    );
    let claim = &stored["volumeClaimTemplates"][0];
    assert_eq!(
        (&claim["spec"]["volumeMode"], &claim["status"]["phase"]),
        (&json!("Filesystem"), &json!("Pending"))
    );
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
    check_create::<StatefulSetRules>(
        &base,
        &[
            (
                "words",
                spec(
                    json!({"podManagementPolicy": "X", "updateStrategy": {"type": "Y"}, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Z"}, "serviceName": "A"}),
                ),
                &[
                    "spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'",
                    "spec.updateStrategy: Invalid value: {\"Type\":\"Y\",\"RollingUpdate\":null}: must be 'RollingUpdate' or 'OnDelete'",
                    "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Z\": supported values: \"Retain\", \"Delete\"",
                    "spec.serviceName: Invalid value: \"A\": a lowercase RFC 1123 label…",
                ],
            ),
            (
                "claims",
                spec(json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]})),
                &[
                    "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                    "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
                ],
            ),
            (
                "no claim to mount",
                spec(json!({"volumeClaimTemplates": null})),
                &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""],
            ),
            (
                "names of hosts are the controller's",
                spec(json!({"template": {"spec": {"hostname": "A B"}}})),
                &[],
            ),
        ],
    );
    check_update::<StatefulSetRules>(
        &base,
        &[
            (
                "service",
                spec(json!({"serviceName": "t"})),
                &["spec: Forbidden: updates to statefulset spec for fields other than…"],
            ),
            (
                "claims",
                spec(
                    json!({"volumeClaimTemplates": null, "template": {"spec": {"containers": [{"name": "main", "image": "a:1"}]}}}),
                ),
                &["spec: Forbidden: updates…"],
            ),
            (
                "the rest",
                spec(
                    json!({"replicas": 2, "minReadySeconds": 1, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}),
                ),
                &[],
            ),
        ],
    );
    assert_eq!(StatefulSetRules::name_errors("a.b"), ["must not contain dots"]);
    assert_eq!(row::<StatefulSetRules>(&base), "a | 0/1 | 10m | main | a:1");
}

#[test]
fn daemon_sets() {
    let stored = created::<DaemonSetRules>(&base());
    assert_eq!(
        stored["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
    );
    let generation = |object: &Value| {
        object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    assert_eq!(generation(&stored), "1");
    let slower = patched(&stored, &spec(json!({"minReadySeconds": 3})));
    assert_eq!(generation(&updated::<DaemonSetRules>(&slower, &stored)), "1");
    let newer = patched(&stored, &spec(json!({"template": {"spec": {"hostNetwork": true}}})));
    assert_eq!(generation(&updated::<DaemonSetRules>(&newer, &stored)), "2");
    let spelt =
        patched(&stored, &spec(json!({"template": {"spec": {"hostNetwork": false, "nodeName": ""}}})));
    assert_eq!(generation(&updated::<DaemonSetRules>(&spelt, &stored)), "1");
    check_create::<DaemonSetRules>(
        &base(),
        &[
            (
                "both",
                spec(json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}})),
                &[
                    "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
                ],
            ),
            (
                "neither",
                spec(json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}})),
                &[
                    "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
                ],
            ),
            (
                "pods that end",
                spec(json!({"template": {"spec": {"restartPolicy": "OnFailure"}}})),
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
                ],
            ),
        ],
    );
    assert_eq!(row::<DaemonSetRules>(&base()), "a | 0 | 0 | 0 | 0 | 0 | <none> | 10m | main | a:1 | app=a");
}

/// Kinds that are older than the garbage collector leave behind what they own, and events own nothing.
#[test]
fn what_becomes_of_dependents() {
    fn of<R: Rules>() -> Dependents {
        Erased::<R>::new().dependents()
    }
    assert_eq!(of::<DeploymentRules>(), Dependents::Background);
    assert_eq!([of::<JobRules>(), of::<ReplicationControllerRules>()], [Dependents::Orphan; 2]);
    assert_eq!([of::<EventRules>(), of::<EventV1Rules>()], [Dependents::None; 2]);
}
