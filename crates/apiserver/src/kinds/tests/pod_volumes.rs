use serde_json::json;

use super::pod::{base, spec, volume};
use super::*;
use crate::kinds::pod::PodRules;
use crate::registry::Part;

#[test]
fn volumes() {
    let twice = spec(json!({"volumes": [{"name": "data"}, {"name": "data"}]}));
    let template = |patch: Value| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        volume(json!({"ephemeral": {"volumeClaimTemplate": patched(&json!({"spec": spec}), &patch)}}))
    };
    let own = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "p-tmp"}},
        {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
    ]);
    // A volume that is refused cannot be mounted either.
    let lost = "spec.containers[0].volumeMounts[0].name: Not found: \"data\"";
    check_create::<PodRules>(
        &base(),
        &[
            ("twice", twice, &["spec.volumes[1].name: Duplicate value: \"data\""]),
            (
                "name",
                spec(json!({"volumes": [{"name": "data"}, {"name": "a.b"}]})),
                &["spec.volumes[1].name: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "no name",
                spec(json!({"volumes": [{"name": "data"}, {"name": ""}]})),
                &["spec.volumes[1].name: Required value"],
            ),
            (
                "no claim",
                volume(json!({"persistentVolumeClaim": {"claimName": ""}})),
                &["spec.volumes[0].persistentVolumeClaim.claimName: Required value", lost],
            ),
            (
                "two sources",
                volume(json!({"emptyDir": {}, "secret": {"secretName": "s"}})),
                &["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type", lost],
            ),
            (
                "secret",
                volume(json!({"secret": {}})),
                &["spec.volumes[0].secret.secretName: Required value", lost],
            ),
            (
                "secret mode",
                volume(json!({"secret": {"secretName": "s", "defaultMode": 512}})),
                &[
                    "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                    lost,
                ],
            ),
            (
                "config item",
                volume(json!({"configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}})),
                &[
                    "spec.volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'",
                    lost,
                ],
            ),
            (
                "inline driver",
                volume(json!({"csi": {"driver": "a_b"}})),
                &[
                    "spec.volumes[0].csi.driver: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain…",
                    lost,
                ],
            ),
            (
                "size limit",
                volume(json!({"emptyDir": {"sizeLimit": "-1"}})),
                &[
                    "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
                    lost,
                ],
            ),
            (
                "template",
                template(json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}})),
                &[],
            ),
            (
                "no template",
                volume(json!({"ephemeral": {}})),
                &["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value", lost],
            ),
            (
                "named template",
                template(json!({"metadata": {"name": "x"}})),
                &[
                    "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
                    lost,
                ],
            ),
            (
                "labels and annotations of a template",
                template(json!({"metadata": {"labels": {"a b": "c"}, "annotations": {"a b": "c"}}})),
                &[
                    "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.annotations: Invalid value: \"a b\": name part must consist…",
                    "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels: Invalid value: \"a b\": name part must consist…",
                    lost,
                ],
            ),
            (
                "template without modes",
                template(json!({"spec": {"accessModes": null}})),
                &[
                    "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required",
                    lost,
                ],
            ),
            (
                "claim of an ephemeral volume",
                spec(json!({"volumes": own})),
                &[
                    "spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: \"p-tmp\": must not reference a PVC that gets created for an ephemeral volume",
                ],
            ),
        ],
    );
}

#[test]
fn the_rest() {
    let toleration = |toleration: Value| spec(json!({"tolerations": [toleration]}));
    let at = "spec.tolerations[0]";
    check_create::<PodRules>(
        &base(),
        &[
            (
                "restart",
                spec(json!({"restartPolicy": "Maybe"})),
                &[
                    "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                ],
            ),
            (
                "dns",
                spec(json!({"dnsPolicy": "Maybe"})),
                &[
                    "spec.dnsPolicy: Unsupported value: \"Maybe\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
                ],
            ),
            (
                "node",
                spec(json!({"nodeName": "A"})),
                &["spec.nodeName: Invalid value: \"A\": a lowercase RFC 1123 subdomain…"],
            ),
            (
                "node selector",
                spec(json!({"nodeSelector": {"a": "b c"}})),
                &["spec.nodeSelector: Invalid value: \"b c\": a valid label must be…"],
            ),
            (
                "affinity",
                spec(
                    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}),
                ),
                &[
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
                ],
            ),
            (
                "account",
                spec(json!({"serviceAccountName": "A"})),
                &["spec.serviceAccountName: Invalid value: \"A\": a lowercase RFC 1123 subdomain…"],
            ),
            (
                "deadline",
                spec(json!({"activeDeadlineSeconds": 0})),
                &[
                    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                ],
            ),
            (
                "host name",
                spec(json!({"hostname": "a.b"})),
                &["spec.hostname: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "gate twice",
                spec(json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]})),
                &["spec.schedulingGates[1]: Duplicate value: \"a\""],
            ),
            (
                "toleration of nothing",
                toleration(json!({})),
                &[&format!(
                    "{at}.operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""
                )],
            ),
            (
                "toleration value",
                toleration(json!({"key": "a", "operator": "Exists", "value": "b"})),
                &[&format!(
                    "{at}.operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"
                )],
            ),
            (
                "toleration operator",
                toleration(json!({"key": "a", "operator": "Like"})),
                &[&format!(
                    "{at}.operator: Unsupported value: \"Like\": supported values: \"Equal\", \"Exists\""
                )],
            ),
            (
                "toleration effect",
                toleration(json!({"key": "a", "effect": "Never"})),
                &[&format!(
                    "{at}.effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
                )],
            ),
            (
                "toleration seconds",
                toleration(json!({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1})),
                &[&format!(
                    "{at}.effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"
                )],
            ),
            (
                "host namespaces",
                spec(json!({"hostUsers": false, "hostPID": true})),
                &["spec.HostPID: Forbidden: when `hostUsers` is false"],
            ),
        ],
    );
}

#[test]
fn containers_to_look_around_with() {
    let debug = |patch: Value| {
        let one = json!({"name": "debug", "image": "a:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
        patched(&base(), &spec(json!({"ephemeralContainers": [patched(&one, &patch)]})))
    };
    let there = debug(json!({}));
    let table: &[(&str, Value, Value, &[&str])] = &[
        ("comes", base(), debug(json!({"targetContainerName": "main"})), &[]),
        (
            "of nobody",
            base(),
            debug(json!({"targetContainerName": "x"})),
            &["spec.ephemeralContainers[0].targetContainerName: Not found: \"x\""],
        ),
        (
            "sub path",
            base(),
            debug(json!({"volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "x"}]})),
            &[
                "spec.ephemeralContainers[0].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container",
            ],
        ),
        (
            "part of the work",
            base(),
            debug(json!({"ports": [{"containerPort": 1}], "lifecycle": {}})),
            &[
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container",
            ],
        ),
        (
            "goes",
            there.clone(),
            base(),
            &[
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed…",
            ],
        ),
        (
            "changes",
            there.clone(),
            debug(json!({"image": "b:1"})),
            &[
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be changed…",
            ],
        ),
    ];
    for (name, old, new, want) in table {
        assert_errors(name, part_errors::<PodRules>(new, old, Part::EphemeralContainers), want);
    }
    let refused = &["spec.ephemeralContainers: Forbidden: cannot be set on create"];
    assert_errors("at birth", create_errors::<PodRules>(&there), refused);
    let moved = patched(&there, &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}}));
    assert_eq!(
        through::<PodRules>(&moved, &base(), Part::EphemeralContainers)["spec"]["nodeName"],
        Value::Null
    );
}

#[test]
fn new_sizes() {
    let sized = |resources: Value| {
        let containers = json!([{"name": "main", "image": "a:1", "resources": resources}]);
        json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
    };
    let half = sized(json!({"requests": {"cpu": "500m", "memory": "1Gi"}}));
    let mut policy = half.clone();
    policy["spec"]["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let table: &[(&str, Value, &[&str])] = &[
        ("more", sized(json!({"requests": {"cpu": "1", "memory": "2Gi"}})), &[]),
        (
            "gone",
            sized(json!({"requests": {"cpu": "1"}})),
            &["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
        ),
        (
            "another class",
            sized(
                json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
            ),
            &["spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"],
        ),
        (
            "another resource",
            sized(json!({"requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"}})),
            &["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        ("another policy", policy, &["spec: Forbidden: only cpu and memory resources are mutable"]),
        (
            "another container",
            patched(
                &half,
                &json!({"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}}),
            ),
            &[
                "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                "spec.containers: Forbidden: containers may not be added or removed on resize",
            ],
        ),
    ];
    for (name, new, want) in table {
        assert_errors(name, part_errors::<PodRules>(new, &half, Part::Resize), want);
    }
    let other = patched(
        &sized(json!({"requests": {"cpu": "1", "memory": "2Gi"}})),
        &json!({"spec": {"nodeName": "n"}}),
    );
    let after = through::<PodRules>(&other, &half, Part::Resize);
    assert_eq!(
        (&after["spec"]["nodeName"], &after["spec"]["containers"][0]["resources"]["requests"]["cpu"]),
        (&Value::Null, &json!("1"))
    );
}
