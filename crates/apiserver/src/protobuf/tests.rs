//! There and back again, and what upstream's bytes look like.

use serde_json::json;

use super::*;

fn decode(body: &[u8], expected: (&str, &str)) -> Result<Value> {
    open(body, expected)?.object()
}

fn round_trip(object: &Value) -> Value {
    let bytes = encode(object).expect("a kind with a schema");
    decode(&bytes, ("", "")).expect("our own bytes")
}

#[test]
fn objects_survive_the_trip() {
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"a": "b", "empty": ""}, "creationTimestamp": "2026-01-02T03:04:05Z",
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {".": {}}}, "time": "2026-01-02T03:04:05Z"}]},
            "spec": {
                "containers": [{
                    "name": "c", "image": "host",
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"port": "web", "path": "/"}},
                    "readinessProbe": {"tcpSocket": {"port": 8080}},
                }],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}}],
                "terminationGracePeriodSeconds": 0,
                "securityContext": {"fsGroup": -1, "runAsNonRoot": false},
            },
            "status": {"phase": "Running"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"key": "c2VjcmV0", "none": ""}, "type": "Opaque",
        }),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.123456Z"},
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "c"},
            "storageClassName": "fast", "capacity": "100Gi",
            "nodeTopology": {"matchLabels": {"zone": "a"}},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"},
            "spec": {"serviceName": "s", "selector": {}, "template": {"metadata": {}, "spec": {"containers": []}},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%", "partition": 0}}},
            "status": {"replicas": 3},
        }),
    ];
    for object in objects {
        let mut expected = object.clone();
        drop_empty(&mut expected);
        assert_eq!(round_trip(&object), expected, "{}", object["kind"]);
    }
}

/// A list without elements leaves no trace in protobuf.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| *field != json!([]));
            fields.values_mut().for_each(drop_empty);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// The bytes that Go's encoder gives for this object.
#[test]
fn known_bytes() {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}});
    let bytes = encode(&object).expect("a kind with a schema");
    let meta = [b"\x0a\x02v1\x12\x09ConfigMap".as_slice()].concat();
    let raw = b"\x0a\x03\x0a\x01x\x12\x06\x0a\x01a\x12\x01b";
    let mut expected = b"k8s\0".to_vec();
    expected.extend([&[0x0a, meta.len() as u8], meta.as_slice()].concat());
    expected.extend([&[0x12, raw.len() as u8], raw.as_slice()].concat());
    expected.extend([0x1a, 0, 0x22, 0]);
    assert_eq!(bytes, expected);
}

/// Go writes zero values of plain fields; they mean absent where JSON would leave them out.
#[test]
fn zero_values_of_plain_fields_are_absent() {
    let raw = b"\x0a\x05\x0a\x01x\x12\x00\x12\x00";
    let mut body = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12".to_vec();
    body.push(raw.len() as u8);
    body.extend_from_slice(raw);
    let object = decode(&body, ("", "")).expect("decodes");
    assert_eq!(
        object,
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "x"}, "involvedObject": {}})
    );
}

#[test]
fn bad_bodies_are_refused() {
    let table: [(&str, &[u8], &str); 6] = [
        ("nothing", b"", "empty data"),
        ("magic alone", b"k8s\0", "empty body"),
        ("no magic", b"{}", "does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        ("cut short", b"k8s\0\x0a\x7f", "unexpected EOF"),
        (
            "wrong type",
            b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x08\x01",
            "metadata: not length-delimited",
        ),
        ("endless number", b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 64"),
    ];
    for (name, body, why) in table {
        let error = decode(body, ("v1", "Pod")).expect_err(name).to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    let unknown = decode(b"k8s\0\x0a\x07\x0a\x01x\x12\x02No", ("v1", "Pod")).expect("an envelope");
    assert_eq!(unknown, json!({"apiVersion": "x", "kind": "No"}), "what it is can be said");
}

/// Upstream passes bytes on and marks them when it writes JSON.
#[test]
fn what_is_no_text_gets_a_mark() {
    let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x08\x12\x06\x0a\x01a\x12\x01\xff";
    assert_eq!(decode(body, ("", "")).expect("decodes")["data"]["a"], "\u{fffd}");
}

#[test]
fn nesting_is_bounded() {
    // apiVersion and kind of a CSINode, then JSONSchema-like self nesting is not available; a label selector in a
    // pod's affinity nests a fixed number of times, so the bound is checked on the function itself.
    let schema = Schema::get();
    let pod = schema.kind("v1", "Pod").expect("known");
    assert_eq!(super::decode::message(schema, pod, &[], DEPTH_MAX + 1), Err(ProtobufError::TooDeep));
}

#[test]
fn any_bytes_are_survived() {
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut body = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12".to_vec();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = (state >> 58) as u8;
        body.push(length);
        for _ in 0..length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            body.push((state >> 56) as u8);
        }
        if let Ok(object) = decode(&body, ("", "")) {
            assert_eq!(object["kind"], "Pod");
        }
    }
}
