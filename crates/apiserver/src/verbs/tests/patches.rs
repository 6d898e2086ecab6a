//! What upstream says of patches. Each answer is what kube-apiserver v1.36.3 gave.

use http::Method;
use serde_json::{Value, json};

use crate::testing::*;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

#[tokio::test]
async fn refused_patches() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    post(&server, PODS, &pod("p")).await.ok();
    let config = format!("{CONFIGMAPS}/a");
    let pod = format!("{PODS}/p");
    let map = "into Go value of type map[string]interface {}";
    let cases: Vec<(&str, &str, &str, u16, String)> = vec![
        (&config, MERGE, "", 400, "error decoding patch: unexpected end of JSON input".into()),
        (&config, STRATEGIC, "", 400, "unexpected end of JSON input".into()),
        (&config, MERGE, "null", 400, "Invalid JSON Patch".into()),
        (&config, MERGE, "[]", 400, format!("error decoding patch: json: cannot unmarshal array {map}")),
        (&config, STRATEGIC, "\"x\"", 400, format!("json: cannot unmarshal string {map}")),
        (&config, STRATEGIC, "{} x", 400, "invalid character 'x' after top-level value".into()),
        (&config, MERGE, r#"{"metadata":{"name":"x"}}"#, 400, "the name of the object (x) does not match the name on the URL (a)".into()),
        (&config, MERGE, r#"{"metadata":{"namespace":"x"}}"#, 400, "the namespace of the provided object does not match the namespace sent on the request".into()),
        (&config, STRATEGIC, r#"{"metadata":null}"#, 400, "the name of the object (a based on URL) was undeterminable: name must be provided".into()),
        (&config, MERGE, r#"{"metadata":{"resourceVersion":"x"}}"#, 500, r#"strconv.ParseUint: parsing "x": invalid syntax"#.into()),
        (&config, STRATEGIC, r#"{"data":"x"}"#, 422, r#" "" is invalid: patch: Invalid value: "map[data:x]": cannot restore map from string"#.into()),
        (&config, STRATEGIC, r#"{"data":{"a":1}}"#, 422, r#" "" is invalid: patch: Invalid value: "map[data:map[a:1]]": cannot convert int64 to string"#.into()),
        (&config, STRATEGIC, r#"{"metadata":"x"}"#, 422, r#" "" is invalid: patch: Invalid value: "map[metadata:x]": cannot restore struct from: string"#.into()),
        (&config, STRATEGIC, r#"{"data":{"$patch":"foo"}}"#, 500, "unknown patch type: foo in map: map[$patch:foo]".into()),
        (&config, STRATEGIC, r#"{"data":{"$retainKeys":"z"}}"#, 400, "invalid patch format of retainKeys".into()),
        (&config, STRATEGIC, r#"{"data":{"$retainKeys":["a"],"z":"1"}}"#, 400, "invalid patch format of retainKeys".into()),
        (&config, STRATEGIC, r#"{"metadata":{"$setElementOrder/finalizers":"x","finalizers":[]}}"#, 500, "expected a []interface {}, but received a string".into()),
        (
            &config,
            STRATEGIC,
            r#"{"metadata":{"$setElementOrder/finalizers":["b/b","a/a"],"finalizers":["a/a","b/b"]}}"#,
            500,
            "The order in patch list:\n[a/a b/b]\n doesn't match $setElementOrder list:\n[b/b a/a]\n".into(),
        ),
        (&pod, STRATEGIC, r#"{"spec":{"containers":[{"image":"x"}]}}"#, 500, "map: map[image:x] does not contain declared merge key: name".into()),
        (&pod, STRATEGIC, r#"{"spec":{"$setElementOrder/containers":[{"nope":"c"}]}}"#, 500, "map: map[nope:c] does not contain declared merge key: name".into()),
        (&pod, STRATEGIC, r#"{"spec":{"dnsPolicy":1}}"#, 422, r#" "" is invalid: patch: Invalid value: "map[spec:map[dnsPolicy:1]]": cannot convert int64 to v1.DNSPolicy"#.into()),
        (&pod, STRATEGIC, r#"{"spec":{"terminationGracePeriodSeconds":"x"}}"#, 422, r#" "" is invalid: patch: Invalid value: "map[spec:map[terminationGracePeriodSeconds:x]]": unrecognized type: int64"#.into()),
        (&config, OPERATIONS, "{}", 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp".into()),
        (&config, OPERATIONS, r#"[{"op":"foo","path":"/data/a"}]"#, 422, "the server rejected our request due to an error in our request".into()),
        (&config, OPERATIONS, r#"[{"op":"replace","path":"","value":{}}]"#, 400, "the name of the object (a based on URL) was undeterminable: name must be provided".into()),
    ];
    for (path, media, body, code, message) in cases {
        let answer =
            send(&server, Method::PATCH, path, "application/json", Some((media, body.as_bytes().to_vec())))
                .await;
        assert_eq!((answer.code, &answer.body["message"]), (code, &json!(message)), "{media} {body}");
    }
}

#[tokio::test]
async fn patches_that_look_odd_and_work() {
    let server = server().await;
    let first = post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let path = format!("{CONFIGMAPS}/a?dryRun=All");
    let cases = [
        (STRATEGIC, "null", json!({"a": "1"})),
        (STRATEGIC, r#"{"kind":"Pod","apiVersion":"v9"}"#, json!({"a": "1"})),
        (STRATEGIC, r#"{"data":{"$patch":"replace","z":"1"}}"#, json!({"z": "1"})),
        (STRATEGIC, r#"{"data":{"$retainKeys":["z"],"z":"1"}}"#, json!({"z": "1"})),
        (STRATEGIC, r#"{"data":{"$patch":"delete"}}"#, Value::Null),
        (MERGE, r#"{"data":null}"#, Value::Null),
        (OPERATIONS, "null", json!({"a": "1"})),
        (OPERATIONS, r#"[{"op":"add","path":"/data/q"}]"#, json!({"a": "1", "q": ""})),
        (OPERATIONS, r#"[{"op":"move","from":"/data/a","path":"/data/z"}]"#, json!({"z": "1"})),
    ];
    for (media, body, want) in cases {
        let answer =
            send(&server, Method::PATCH, &path, "application/json", Some((media, body.as_bytes().to_vec())))
                .await;
        assert_eq!((answer.code, &answer.body["data"]), (200, &want), "{media} {body}");
        assert_eq!(answer.body["metadata"]["uid"], first["metadata"]["uid"]);
    }
}

#[tokio::test]
async fn notes_on_patches() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let cases = [
        (
            MERGE,
            r#"{"foo":1,"data":{"x":"1","x":"2"}}"#,
            vec![r#"duplicate field "data.x""#, r#"unknown field "foo""#],
        ),
        (STRATEGIC, r#"{"foo":1}"#, vec![r#"unknown field "foo""#]),
        (
            OPERATIONS,
            r#"[{"op":"add","op":"add","path":"/data/q","value":"x","foo":1}]"#,
            vec![r#"json patch duplicate field "[0].op""#, r#"json patch unknown field "[0].foo""#],
        ),
    ];
    for (media, body, notes) in cases {
        let path = |query: &str| format!("{CONFIGMAPS}/a?dryRun=All&fieldValidation={query}");
        let sent = || Some((media, body.as_bytes().to_vec()));
        let warned = send(&server, Method::PATCH, &path("Warn"), "application/json", sent()).await;
        let told: Vec<String> =
            notes.iter().map(|note| format!("299 - \"{}\"", note.replace('"', "\\\""))).collect();
        assert_eq!((warned.code, warned.warnings), (200, told), "{body}");
        let quiet = send(&server, Method::PATCH, &path("Ignore"), "application/json", sent()).await;
        assert_eq!((quiet.code, quiet.warnings.len()), (200, 0));
        let strict = send(&server, Method::PATCH, &path("Strict"), "application/json", sent()).await;
        let message = strict.body["message"].as_str().unwrap_or_default().to_owned();
        let want = format!(": strict decoding error: {}", notes.join(", "));
        assert!(strict.code == 422 && message.ends_with(&want), "{message}");
    }
}
