use serde_json::json;

use super::*;

#[test]
fn the_built_in_schema_knows_its_kinds() {
    let schema = load::load(include_str!("../../schema/kubernetes.json")).expect("readable");
    for (api_version, kind) in [("v1", "Pod"), ("v1", "PodList"), ("storage.k8s.io/v1", "CSINode")] {
        assert!(schema.kind(api_version, kind).is_some(), "{api_version} {kind}");
    }
    assert_eq!(schema.kind("v1", "Nonsense"), None);
}

#[test]
fn fields_are_found_by_their_json_names() {
    let schema = Schema::get();
    let claim = schema.of(schema.kind("v1", "PersistentVolumeClaim").expect("known"));
    let spec = schema.field(claim, "spec").expect("has a spec");
    let Shape::Message(spec) = spec.shape else { panic!("a message") };
    let modes = schema.field(schema.of(spec), "accessModes").expect("has modes");
    assert_eq!((modes.number, &modes.ownership), (1, &Ownership::Atomic));
    assert!(schema.field(schema.of(spec), "accessmodes").is_none());
}

/// `hostPath` is a field of a volume in JSON, and of its source in protobuf.
#[test]
fn inlined_messages_lend_their_fields() {
    let schema = Schema::get();
    let pod = schema.of(schema.kind("v1", "Pod").expect("known"));
    let Shape::Message(spec) = schema.field(pod, "spec").expect("spec").shape else { panic!("a message") };
    let volumes = schema.field(schema.of(spec), "volumes").expect("volumes");
    assert_eq!(volumes.merge, Merge { elements: true, key: "name".into(), retain_keys: true });
    let Shape::List(volume) = &volumes.shape else { panic!("a list") };
    let Shape::Message(volume) = **volume else { panic!("of messages") };
    assert_eq!(schema.field(schema.of(volume), "hostPath").expect("inlined").number, 1);
}

fn accepted(api_version: &str, kind: &str, input: Value) -> Result<Accepted, String> {
    let schema = Schema::get();
    schema.accept(schema.kind(api_version, kind).expect("known"), &input)
}

/// Every text was seen on upstream's server.
#[test]
fn what_does_not_fit_is_refused_in_gos_words() {
    let with = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let container = |field: &str, value: Value| with(json!({"containers": [{(field): value}]}));
    let deep = "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32";
    let table = [
        (
            container("name", json!(5)),
            "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
        ),
        (
            container("imagePullPolicy", json!(5)),
            "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            json!({"spec": {"replicas": "x"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            with(json!({"containers": {}})),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            container("resources", json!({"limits": {"cpu": "1x"}})),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            json!({"metadata": {"creationTimestamp": "x"}}),
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
        // A decoder of its own refuses harder than a wrong type before it.
        (
            json!({"metadata": "x", "spec": {"template": {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": true}}}]}}}}),
            deep,
        ),
    ];
    for (input, want) in table {
        assert_eq!(accepted("apps/v1", "Deployment", input.clone()).expect_err("refused"), want, "{input}");
    }
    let secret = accepted("v1", "Secret", json!({"data": {"a": "*"}}));
    assert_eq!(secret.expect_err("refused"), "illegal base64 data at input byte 0");
}

#[test]
fn amounts_and_times_have_one_notation_and_unknown_fields_go() {
    let input = json!({
        "apiVersion": "v1", "kind": "Pod", "foo": 1,
        "metadata": {"labels": {"a": null}, "creationTimestamp": "2026-01-01T01:00:00.5+01:00", "annotations": null},
        "spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1024Mi", "x": 0.5}}, "bar": {}}]},
    });
    let Accepted { object, unknown } = accepted("v1", "Pod", input).expect("fits");
    assert_eq!(unknown, ["foo", "spec.containers[0].bar"]);
    let want = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": {"a": ""}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi", "x": "500m"}}}]},
    });
    assert_eq!(object, want);
}

#[test]
fn empty_values_are_written_as_go_writes_them() {
    let table = [
        (
            "rbac.authorization.k8s.io/v1",
            "Role",
            json!({"metadata": {}, "rules": []}),
            json!({"metadata": {}, "rules": null}),
        ),
        (
            "apps/v1",
            "ReplicaSet",
            json!({"metadata": {"labels": {}, "creationTimestamp": null}}),
            json!({"metadata": {}, "spec": {"selector": null, "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {"replicas": 0}}),
        ),
        (
            "v1",
            "Node",
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"unschedulable": false}}),
            json!({"metadata": {}, "spec": {}, "status": {
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
                    "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": ""},
            }}),
        ),
    ];
    let schema = Schema::get();
    for (api_version, kind, mut object, want) in table {
        schema.render(schema.kind(api_version, kind).expect("known"), &mut object);
        assert_eq!(object, want, "{kind}");
    }
}
