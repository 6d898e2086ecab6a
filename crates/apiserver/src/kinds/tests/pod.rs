use serde_json::json;

use super::*;
use crate::kinds::Deletion;
use crate::kinds::pod::PodRules;

pub fn base() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "a:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    })
}

pub fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

/// The base's container with a patch on top.
fn container(patch: Value) -> Value {
    spec(json!({"containers": [patched(&base()["spec"]["containers"][0], &patch)]}))
}

pub fn volume(patch: Value) -> Value {
    let plain = json!({"name": "data"});
    spec(json!({"volumes": [patched(&plain, &patch)]}))
}

#[test]
fn containers() {
    let twice = json!({"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]});
    let init_twice = json!({"initContainers": [{"name": "main", "image": "x"}]});
    let probe = json!({"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"exec": {}}}]});
    check_create::<PodRules>(
        &base(),
        &[
            ("none", spec(json!({"containers": []})), &["spec.containers: Required value"]),
            ("no name", container(json!({"name": ""})), &["spec.containers[0].name: Required value"]),
            (
                "name",
                container(json!({"name": "a.b"})),
                &["spec.containers[0].name: Invalid value: \"a.b\": must not contain dots"],
            ),
            ("no image", container(json!({"image": null})), &["spec.containers[0].image: Required value"]),
            (
                "image with a space",
                container(json!({"image": " a"})),
                &[
                    "spec.containers[0].image: Invalid value: \" a\": must not have leading or trailing whitespace",
                ],
            ),
            ("twice", spec(twice), &["spec.containers[1].name: Duplicate value: \"a\""]),
            (
                "init of the same name",
                spec(init_twice),
                &["spec.initContainers[0].name: Duplicate value: \"main\""],
            ),
            (
                "init probe",
                spec(probe),
                &[
                    "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
                ],
            ),
            (
                "pull policy",
                container(json!({"imagePullPolicy": "Maybe"})),
                &[
                    "spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                ],
            ),
            (
                "message policy",
                container(json!({"terminationMessagePolicy": "Mail"})),
                &[
                    "spec.containers[0].terminationMessagePolicy: Unsupported value: \"Mail\": supported values: \"File\", \"FallbackToLogsOnError\"",
                ],
            ),
            (
                "port",
                container(json!({"ports": [{"containerPort": 70000}]})),
                &[
                    "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                "no port",
                container(json!({"ports": [{"name": "x"}]})),
                &["spec.containers[0].ports[0].containerPort: Required value"],
            ),
            (
                "protocol",
                container(json!({"ports": [{"containerPort": 1, "protocol": "IP"}]})),
                &[
                    "spec.containers[0].ports[0].protocol: Unsupported value: \"IP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                ],
            ),
            (
                "variable",
                container(json!({"env": [{"name": "a=b"}]})),
                &[
                    "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name…",
                ],
            ),
            (
                "request above limit",
                container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
                &[
                    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                ],
            ),
            (
                "negative",
                container(json!({"resources": {"requests": {"cpu": "-1"}}})),
                &[
                    "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
        ],
    );
}

#[test]
fn mounts_and_devices() {
    let mounts = |mounts: Value| container(json!({"volumeMounts": mounts}));
    let devices = |devices: Value| container(json!({"volumeMounts": null, "volumeDevices": devices}));
    let at = |text: &str| format!("spec.containers[0].{text}");
    let both = container(json!({"volumeDevices": [{"name": "data", "devicePath": "/data"}]}));
    let scratch = patched(&devices(json!([{"name": "data", "devicePath": "/dev/x"}])), &volume(json!({})));
    check_create::<PodRules>(
        &base(),
        &[
            (
                "no such volume",
                mounts(json!([{"name": "x", "mountPath": "/x"}])),
                &[&at("volumeMounts[0].name: Not found: \"x\"")],
            ),
            (
                "no name",
                mounts(json!([{"name": "", "mountPath": "/x"}])),
                &[&at("volumeMounts[0].name: Required value"), &at("volumeMounts[0].name: Not found: \"\"")],
            ),
            (
                "no path",
                mounts(json!([{"name": "data", "mountPath": ""}])),
                &[&at("volumeMounts[0].mountPath: Required value")],
            ),
            (
                "path twice",
                mounts(json!([{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}])),
                &[&at("volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique")],
            ),
            (
                "volume twice",
                mounts(json!([{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}])),
                &[],
            ),
            (
                "absolute sub path",
                mounts(json!([{"name": "data", "mountPath": "/a", "subPath": "/x"}])),
                &[&at("volumeMounts.subPath: Invalid value: \"/x\": must be a relative path")],
            ),
            (
                "climbing sub path",
                mounts(json!([{"name": "data", "mountPath": "/a", "subPathExpr": "a/../b"}])),
                &[&at("volumeMounts.subPathExpr: Invalid value: \"a/../b\": must not contain '..'")],
            ),
            (
                "two sub paths",
                mounts(json!([{"name": "data", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}])),
                &[&at(
                    "volumeMounts[0].subPathExpr: Invalid value: \"y\": subPathExpr and subPath are mutually exclusive",
                )],
            ),
            (
                "outward",
                mounts(json!([{"name": "data", "mountPath": "/a", "mountPropagation": "Bidirectional"}])),
                &[&at(
                    "volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
                )],
            ),
            ("device", devices(json!([{"name": "data", "devicePath": "/dev/x"}])), &[]),
            (
                "both",
                both,
                &[
                    &at(
                        "volumeMounts[0].name: Invalid value: \"data\": must not already exist in volumeDevices",
                    ),
                    &at(
                        "volumeMounts[0].mountPath: Invalid value: \"/data\": must not already exist as a path in volumeDevices",
                    ),
                    &at(
                        "volumeDevices[0].name: Invalid value: \"data\": must not already exist in volumeMounts",
                    ),
                    &at(
                        "volumeDevices[0].devicePath: Invalid value: \"/data\": must not already exist as a path in volumeMounts",
                    ),
                ],
            ),
            (
                "device of a directory",
                scratch,
                &[&at(
                    "volumeDevices[0].name: Invalid value: \"data\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                )],
            ),
            (
                "no such device",
                devices(json!([{"name": "x", "devicePath": "/dev/x"}])),
                &[&at("volumeDevices[0].name: Not found: \"x\"")],
            ),
            (
                "climbing device",
                devices(json!([{"name": "data", "devicePath": "/dev/../x"}])),
                &[&at(
                    "volumeDevices[0].devicePath: Invalid value: \"/dev/../x\": can not contain backsteps ('..')",
                )],
            ),
            (
                "device twice",
                devices(json!([{"name": "data", "devicePath": "/a"}, {"name": "data", "devicePath": "/a"}])),
                &[
                    &at("volumeDevices[1].name: Invalid value: \"data\": must be unique"),
                    &at("volumeDevices[1].devicePath: Invalid value: \"/a\": must be unique"),
                ],
            ),
            (
                "device without the host's users",
                patched(
                    &devices(json!([{"name": "data", "devicePath": "/dev/x"}])),
                    &spec(json!({"hostUsers": false})),
                ),
                &[&at("volumeDevices: Forbidden: when `hostUsers` is false")],
            ),
        ],
    );
}

#[test]
fn deletion() {
    let on_node = json!({"spec": {"nodeName": "n"}});
    let gone = |phase: &str| json!({"spec": {"nodeName": "n"}, "status": {"phase": phase}});
    let table = [
        ("unscheduled", json!({}), None, Deletion::Now),
        ("unscheduled with a wish", json!({}), Some(60), Deletion::Now),
        ("failed", gone("Failed"), None, Deletion::Now),
        ("succeeded", gone("Succeeded"), Some(5), Deletion::Now),
        ("running", gone("Running"), None, Deletion::Graceful(30)),
        (
            "own",
            json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}),
            None,
            Deletion::Graceful(5),
        ),
        ("requested", on_node.clone(), Some(7), Deletion::Graceful(7)),
        ("at once", on_node.clone(), Some(0), Deletion::Now),
        (
            "own at once",
            json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 0}}),
            None,
            Deletion::Now,
        ),
        ("negative", on_node, Some(-1), Deletion::Graceful(1)),
    ];
    for (name, patch, requested, want) in table {
        let mut pod = serde_json::from_value(patched(&base(), &patch)).unwrap();
        PodRules::default_fields(&mut pod);
        assert_eq!(PodRules::deletion(&pod, requested), want, "{name}");
    }
}

#[test]
fn selectable() {
    let patch = json!({"spec": {"nodeName": "n", "serviceAccountName": "me", "hostNetwork": true}, "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.5"}], "nominatedNodeName": "m"}});
    let want = [
        "spec.nodeName=n",
        "spec.restartPolicy=Always",
        "spec.schedulerName=default-scheduler",
        "spec.serviceAccountName=me",
        "spec.hostNetwork=true",
        "status.phase=Running",
        "status.podIP=10.0.0.5",
        "status.nominatedNodeName=m",
    ];
    assert_eq!(labels::<PodRules>(&patched(&base(), &patch)), want);
    assert_eq!(labels::<PodRules>(&base())[4], "spec.hostNetwork=false");
}
