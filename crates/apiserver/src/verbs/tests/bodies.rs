//! Bodies that upstream reads in its own way or not at all. Each answer is what kube-apiserver v1.36.3 gave.

use http::Method;
use serde_json::json;

use crate::Server;
use crate::testing::*;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

async fn create(server: &Server, path: &str, media: &str, body: &[u8]) -> Answer {
    send(server, Method::POST, path, JSON, Some((media, body.to_vec()))).await
}

#[tokio::test]
async fn what_is_no_object() {
    let server = server().await;
    let head = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let parse = |why: &str, shown: &str| {
        format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: {why} ({shown})"
        )
    };
    let typed = |found: &str, shown: &str| {
        parse(&format!("json: cannot unmarshal {found} into Go value of type {head}"), shown)
    };
    let long = r#"{"apiVersion":"v1","kind":"ConfigMap"} x"#;
    let cases: Vec<(&[u8], String)> = vec![
        (b"", parse("unexpected end of JSON input", "<empty>")),
        (b" ", parse("unexpected end of JSON input", "20")),
        (b"[]", typed("array", "5b5d")),
        (b"\"x\"", typed("string", "227822")),
        (b"1", typed("number", "31")),
        (b"{\"a\"", parse("unexpected end of JSON input", "{\"a\"")),
        (b"{a:1}", parse("invalid character 'a' looking for beginning of object key string", "{a:1}")),
        (b"nope", parse("invalid character 'o' in literal null (expecting 'u')", "6e6f7065")),
        (
            long.as_bytes(),
            parse("invalid character 'x' after top-level value", "{\"apiVersion\":\"v1\",\"kind\":\"Con ..."),
        ),
        (
            br#"{"apiVersion":1}"#,
            parse("json: cannot unmarshal number into Go struct field .apiVersion of type string", r#"{"apiVersion":1}"#),
        ),
        (
            br#"{"apiVersion":"a/b/c"}"#,
            r#"the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})"#.into(),
        ),
    ];
    for (body, message) in cases {
        let answer = create(&server, CONFIGMAPS, JSON, body).await;
        assert_eq!((answer.code, &answer.body["reason"]), (400, &json!("BadRequest")));
        assert_eq!(answer.body["message"], json!(message));
        let updated =
            send(&server, Method::PUT, &format!("{CONFIGMAPS}/a"), JSON, Some((JSON, body.to_vec()))).await;
        assert_eq!(updated.body["message"], json!(message), "updates alike");
    }
}

#[tokio::test]
async fn what_is_another_kind() {
    let server = server().await;
    let cases = [
        (
            r#""v1","kind":"Pod""#,
            r#"Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion"#,
        ),
        (
            r#""v1","kind":"Foo""#,
            r#"Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#,
        ),
        (
            r#""v2","kind":"ConfigMap""#,
            r#"ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111""#,
        ),
        (
            r#""apps/v1","kind":"ConfigMap""#,
            r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "apps/v1" in scheme "pkg/runtime/scheme.go:111""#,
        ),
        (
            r#""apps/v1","kind":"Deployment""#,
            r#"Deployment in version "v1" cannot be handled as a ConfigMap: converting (v1.Deployment) to (core.ConfigMap): unknown conversion"#,
        ),
        (
            r#""v1","kind":"ConfigMapList""#,
            r#"ConfigMapList in version "v1" cannot be handled as a ConfigMap: converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion"#,
        ),
    ];
    for (head, message) in cases {
        let body = format!(r#"{{"apiVersion":{head},"metadata":{{"name":"a"}}}}"#);
        let answer = create(&server, CONFIGMAPS, JSON, body.as_bytes()).await;
        assert_eq!((answer.code, &answer.body["message"]), (400, &json!(message)));
    }
    // What the path says may be left out.
    for (number, head) in
        ["", r#""kind":"ConfigMap","#, r#""apiVersion":"v1","#, r#""kind":null,"#].iter().enumerate()
    {
        let body = format!(r#"{{{head}"metadata":{{"name":"n{number}"}}}}"#);
        assert_eq!(create(&server, CONFIGMAPS, JSON, body.as_bytes()).await.code, 201, "{body}");
    }
    let nothing = create(&server, CONFIGMAPS, JSON, b"null").await;
    assert_eq!((nothing.code, &nothing.body["reason"]), (422, &json!("Invalid")), "an object without a name");
}

#[tokio::test]
async fn fields_that_do_not_fit() {
    let server = server().await;
    let pods = |spec: &str| format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#);
    let cases = [
        (
            PODS,
            pods(r#"{"containers":"x"}"#),
            "string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            PODS,
            pods(r#"{"containers":["x"]}"#),
            "string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            PODS,
            pods(r#"{"containers":[{"image":1}]}"#),
            "number into Go struct field Container.spec.containers.image of type string",
        ),
        (
            PODS,
            pods(r#"{"dnsPolicy":1}"#),
            "number into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy",
        ),
        (
            PODS,
            pods(r#"{"volumes":[{"hostPath":"x"}]}"#),
            "string into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (PODS, pods("[]"), "array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            CONFIGMAPS,
            r#"{"metadata":"x"}"#.into(),
            "string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            CONFIGMAPS,
            r#"{"metadata":{"name":"a"},"data":{"a":1}}"#.into(),
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            CONFIGMAPS,
            r#"{"metadata":{"name":"a","managedFields":"x"}}"#.into(),
            "string into Go struct field ObjectMeta.metadata.managedFields of type []v1.ManagedFieldsEntry",
        ),
        (
            CONFIGMAPS,
            r#"{"metadata":{"name":"a","managedFields":[{"manager":1}]}}"#.into(),
            "number into Go struct field ManagedFieldsEntry.metadata.managedFields.manager of type string",
        ),
    ];
    for (path, body, why) in cases {
        let answer = create(&server, path, JSON, body.as_bytes()).await;
        let kind = if path == PODS { "Pod" } else { "ConfigMap" };
        let want =
            format!("{kind} in version \"v1\" cannot be handled as a {kind}: json: cannot unmarshal {why}");
        assert_eq!((answer.code, &answer.body["message"]), (400, &json!(want)));
    }
}

#[tokio::test]
async fn fields_that_stand_twice_or_not_at_all_in_a_kind() {
    let server = server().await;
    let body = br#"{"metadata":{"name":"a"},"foo":1,"data":{"a":"1","a":"2"},"foo":2}"#;
    let warned = create(&server, &format!("{CONFIGMAPS}?dryRun=All"), JSON, body).await;
    let told = [r#"299 - "unknown field \"foo\"""#, r#"299 - "duplicate field \"data.a\"""#];
    assert_eq!((warned.code, &warned.warnings[..]), (201, &told.map(str::to_owned)[..]));
    assert_eq!(warned.body["data"], json!({"a": "2"}), "the last one counts");
    let quiet = create(&server, &format!("{CONFIGMAPS}?dryRun=All&fieldValidation=Ignore"), JSON, body).await;
    assert_eq!((quiet.code, quiet.warnings.len()), (201, 0));
    let strict =
        create(&server, &format!("{CONFIGMAPS}?dryRun=All&fieldValidation=Strict"), JSON, body).await;
    let want = r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "foo", duplicate field "data.a""#;
    assert_eq!((strict.code, &strict.body["message"]), (400, &json!(want)));

    let nested = br#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"i","image":"j","foo":1}],"nodeSelector":{"a":"b","a":"c"}}}"#;
    let strict = create(&server, &format!("{PODS}?fieldValidation=Strict"), JSON, nested).await;
    let want = r#"Pod in version "v1" cannot be handled as a Pod: strict decoding error: duplicate field "spec.containers[0].image", unknown field "spec.containers[0].foo", duplicate field "spec.nodeSelector.a""#;
    assert_eq!((strict.code, &strict.body["message"]), (400, &json!(want)));
}

#[tokio::test]
async fn yaml_in() {
    let server = server().await;
    let text = "metadata:\n  name: a\ndata:\n  a: 'y'\n  a: z\nfoo: 1\n";
    let warned = create(&server, &format!("{CONFIGMAPS}?dryRun=All"), YAML, text.as_bytes()).await;
    let told = [r#"299 - "line 5: key \"a\" already set in map""#, r#"299 - "unknown field \"foo\"""#];
    assert_eq!((warned.code, &warned.warnings[..]), (201, &told.map(str::to_owned)[..]));
    assert_eq!(warned.body["data"], json!({"a": "z"}));
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    let cases = [
        (
            "?fieldValidation=Strict",
            text,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 5: key \"a\" already set in map, unknown field \"foo\"".to_owned(),
        ),
        (
            "",
            "metadata: {name: a}\ndata: {a: y}",
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal bool into Go struct field ConfigMap.data of type string".to_owned(),
        ),
        ("", "a: *x", format!("{unrecognized}yaml: unknown anchor 'x' referenced (613a202a78)")),
        (
            "",
            "[]",
            format!("{unrecognized}couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} (5b5d)"),
        ),
    ];
    for (query, text, message) in cases {
        let answer = create(&server, &format!("{CONFIGMAPS}{query}"), YAML, text.as_bytes()).await;
        assert_eq!((answer.code, &answer.body["message"]), (400, &json!(message)));
    }
    let put = send(
        &server,
        Method::POST,
        CONFIGMAPS,
        JSON,
        Some((YAML, b"metadata: {name: a}\ndata: {1: '2'}".to_vec())),
    )
    .await;
    assert_eq!((put.code, &put.body["data"]), (201, &json!({"1": "2"})));
    let options = b"kind: DeleteOptions\napiVersion: v1\ndryRun: [All]\n".to_vec();
    let path = format!("{CONFIGMAPS}/a");
    assert_eq!(send(&server, Method::DELETE, &path, JSON, Some((YAML, options))).await.code, 200);
    assert_eq!(get(&server, &path).await.code, 200, "it was a dry run");
}

#[tokio::test]
async fn media_types() {
    let server = server().await;
    for media in ["", JSON, "application/json; charset=utf-8", "APPLICATION/JSON", "application/json;"] {
        let body = Some((media, br#"{"metadata":{"name":"x"}}"#.to_vec()));
        let answer = send(&server, Method::POST, &format!("{CONFIGMAPS}?dryRun=All"), JSON, body).await;
        assert_eq!(answer.code, 201, "{media}");
    }
    for media in
        ["text/plain", "application/cbor", "application/jso", "*/*", "application/json-patch+json", "x;;;"]
    {
        let answer = create(&server, CONFIGMAPS, media, b"{}").await;
        let want = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        assert_eq!((answer.code, &answer.body["message"]), (415, &json!(want)), "{media}");
    }
}

#[tokio::test]
async fn bodies_have_an_end() {
    let server = server().await;
    let sized = |size: usize| json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(size)}}).to_string();
    let answer = create(&server, CONFIGMAPS, JSON, sized(3 << 20).as_bytes()).await;
    assert_eq!(
        (answer.code, &answer.body["message"]),
        (413, &json!("Request entity too large: limit is 3145728"))
    );
    let levels = 100_000;
    let deep =
        format!(r#"{{"metadata":{{"name":"x"}},"foo":{}1{}}}"#, "{\"a\":".repeat(levels), "}".repeat(levels));
    let answer = create(&server, CONFIGMAPS, JSON, deep.as_bytes()).await;
    let want = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character '{' exceeded max depth ({\"metadata\":{\"name\":\"x\"},\"foo\" ...)";
    assert_eq!((answer.code, &answer.body["message"]), (400, &json!(want)));
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let path = format!("{CONFIGMAPS}/a");
    for (media, want) in [
        ("application/merge-patch+json", "error decoding patch: invalid character '{' exceeded max depth"),
        ("application/strategic-merge-patch+json", "invalid character '{' exceeded max depth"),
    ] {
        let answer =
            send(&server, Method::PATCH, &path, JSON, Some((media, deep.clone().into_bytes()))).await;
        assert_eq!((answer.code, &answer.body["message"]), (400, &json!(want)));
    }
    let apply = format!("{path}?fieldManager=m");
    let body = Some(("application/apply-patch+yaml", deep.into_bytes()));
    let answer = send(&server, Method::PATCH, &apply, JSON, body).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    // What is no text is marked, as upstream does.
    let marked =
        create(&server, CONFIGMAPS, JSON, b"{\"metadata\":{\"name\":\"u\"},\"data\":{\"a\":\"\xff\"}}").await;
    assert_eq!((marked.code, &marked.body["data"]["a"]), (201, &json!("\u{fffd}")));
}

#[tokio::test]
async fn copies_do_not_deepen_an_object_without_end() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let mut nested = json!(1);
    let mut operations = Vec::new();
    for _ in 0..100 {
        nested = json!([nested]);
    }
    operations.push(json!({"op": "add", "path": "/x", "value": nested}));
    // Each copy goes to the bottom of what the one before left.
    operations.extend((0..12).map(
        |round| json!({"op": "copy", "from": "/x", "path": format!("/x{}", "/0".repeat(100 << round))}),
    ));
    let answer = patch(&server, &format!("{CONFIGMAPS}/a"), "json", &json!(operations)).await;
    assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")));
}

/// The record of who set which field mirrors an object a few levels further down.
#[tokio::test]
async fn what_is_stored_can_be_read_again() {
    let server = full_server().await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": free}},
            ],
        },
    });
    post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    const WIDGETS: &str = "/apis/example.com/v1/widgets";
    let widget = |name: &str, levels: usize| {
        let spec = (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
    };
    for levels in [118, 122, 125, 126] {
        let name = format!("w{levels}");
        let refused = post(&server, WIDGETS, &widget(&name, levels)).await;
        assert_eq!((refused.code, &refused.body["reason"]), (413, &json!("RequestEntityTooLarge")));
        assert_eq!(get(&server, &format!("{WIDGETS}/{name}")).await.code, 404);
    }
    post(&server, WIDGETS, &widget("deep", 110)).await.ok();
    let deep = get(&server, &format!("{WIDGETS}/deep")).await.ok();
    assert_eq!(deep["spec"], widget("deep", 110)["spec"]);
    assert_eq!(get(&server, WIDGETS).await.ok()["items"][0]["metadata"]["name"], "deep");
}

#[tokio::test]
async fn yaml_out() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let text = |answer: &Answer| String::from_utf8_lossy(&answer.bytes).into_owned();
    let object = send(&server, Method::GET, &format!("{CONFIGMAPS}/a"), YAML, None).await;
    assert!(
        text(&object).starts_with("apiVersion: v1\ndata:\n  a: \"1\"\nkind: ConfigMap\nmetadata:\n"),
        "{}",
        text(&object)
    );
    let list = send(&server, Method::GET, CONFIGMAPS, "application/json;q=0.1,application/yaml", None).await;
    assert!(text(&list).starts_with("apiVersion: v1\nitems:\n- "), "{}", text(&list));
    let missing = send(&server, Method::GET, &format!("{CONFIGMAPS}/nope"), YAML, None).await;
    let want = "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: nope\nkind: Status\nmessage: configmaps \"nope\" not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n";
    assert_eq!((missing.code, text(&missing).as_str()), (404, want));
    let watch = send(&server, Method::GET, &format!("{CONFIGMAPS}?watch=1"), YAML, None).await;
    assert_eq!(watch.code, 406, "{}", text(&watch));
}

#[tokio::test]
async fn broken_protobuf() {
    const BINARY: &str = "application/vnd.kubernetes.protobuf";
    let server = server().await;
    let whole = crate::protobuf::encode(&configmap("a")).expect("has a schema");
    let cut = &whole[..20];
    let shown: String = cut.iter().map(|byte| format!("{byte:02x}")).collect();
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    let inside = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    let pod = crate::protobuf::encode(&pod("p")).expect("has a schema");
    let cases: Vec<(&[u8], String)> = vec![
        (b"", format!("{unrecognized}empty data (<empty>)")),
        (b"k8s\0", format!("{unrecognized}empty body (6b387300)")),
        (
            b"abc",
            format!("{unrecognized}provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (616263)"),
        ),
        (cut, format!("{unrecognized}unexpected EOF ({shown})")),
        (b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x0a\x05", format!("{inside}unexpected EOF")),
        (&pod, "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion".into()),
        (
            b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Foo",
            "Foo in version \"v1\" cannot be handled as a ConfigMap: no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"".into(),
        ),
    ];
    for (body, message) in cases {
        let answer = create(&server, CONFIGMAPS, BINARY, body).await;
        assert_eq!((answer.code, &answer.body["message"]), (400, &json!(message)));
    }
    // An envelope may leave out what the path says.
    let bare = b"k8s\0\x12\x05\x0a\x03\x0a\x01b";
    assert_eq!(create(&server, CONFIGMAPS, BINARY, bare).await.code, 201);
    let options = b"k8s\0\x12\x05\x2a\x03All";
    let path = format!("{CONFIGMAPS}/b");
    assert_eq!(send(&server, Method::DELETE, &path, JSON, Some((BINARY, options.to_vec()))).await.code, 200);
    assert_eq!(get(&server, &path).await.code, 200, "it was a dry run");
    // Errors come as the client wants them.
    let missing = send(&server, Method::GET, &format!("{CONFIGMAPS}/nope"), BINARY, None).await;
    let status =
        crate::protobuf::open(&missing.bytes, ("", "")).expect("an envelope").object().expect("a status");
    assert_eq!((missing.code, &status["reason"], &status["code"]), (404, &json!("NotFound"), &json!(404)));
}
