//! The words and ways of the proxy, against a kubelet that says what it is told to.

use std::time::Duration;

use bowline_host::{Host, fake};
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::connect::Trust;
use super::location::{Endpoint, address, container};
use super::{NodeProxy, channel, exec, kubelet_client, kubelet_server, log};
use crate::certs::Authority;
use crate::http::query::Query;
use crate::testing::*;

#[test]
fn which_container() {
    let one = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
    let many = json!({"metadata": {"name": "p"}, "spec": {
        "initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}],
    }});
    assert_eq!(container(&one, "").unwrap(), "a");
    assert_eq!(container(&many, "i").unwrap(), "i");
    let cases = [
        (&one, "z", "container z is not valid for pod p"),
        (&many, "", "a container name must be specified for pod p, choose one of: [i a b]"),
    ];
    for (pod, wanted, why) in cases {
        let status = container(pod, wanted).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, why));
    }
}

#[test]
fn where_a_node_answers() {
    let types = super::ADDRESS_TYPES.map(str::to_owned);
    let node = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 4}},
    }});
    assert_eq!(address(&node, &types).unwrap(), Endpoint { host: "n".into(), port: 4 });
    let silent = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    assert_eq!(address(&silent, &types).unwrap(), Endpoint { host: "10.0.0.1".into(), port: 10250 });
    let why = "no preferred addresses found; known addresses: [{InternalIP 10.0.0.1}]";
    assert_eq!(address(&silent, &["ExternalIP".into()]).unwrap_err().message, why);
}

#[test]
fn what_a_kubelet_is_asked() {
    let asked = |text: &str| log::Options::parse(&Query::parse(text)).unwrap().query();
    assert_eq!(asked("container=a"), "");
    assert_eq!(
        asked(
            "timestamps=true&tailLines=2&follow=1&previous=true&limitBytes=7&sinceTime=2026-01-01T00:00:00.5Z"
        ),
        "follow=true&limitBytes=7&previous=true&sinceTime=2026-01-01T00%3A00%3A00Z&tailLines=2&timestamps=true"
    );
    let insecure = Query::parse("insecureSkipTLSVerifyBackend=true");
    let insecure = log::Options::parse(&insecure).unwrap();
    assert_eq!(
        (insecure.query().as_str(), insecure.trust),
        ("", Trust::Anybody),
        "not the kubelet's business"
    );
    let session = Query::parse("tty=0&stdout=true&command=ls&stdin=1&command=-l+a&stderr=true");
    assert_eq!(exec::query(&session), "command=ls&command=-l+a&error=1&input=1&output=1");
}

#[test]
fn a_session_that_cannot_begin() {
    let headers = |protocol: &'static str| {
        let pairs = [
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", protocol),
        ];
        let pairs = pairs.map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        http::HeaderMap::from_iter(pairs)
    };
    assert!(channel::handshake(&headers("v4.channel.k8s.io")).is_none(), "the kubelet's alone");
    assert!(channel::handshake(&http::HeaderMap::new()).is_none());
    let handshake = channel::handshake(&headers("v4.channel.k8s.io, v5.channel.k8s.io")).unwrap();
    assert_eq!(handshake.0, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "the example of RFC 6455");

    let frames = channel::frames(&Query::parse("stdout=1&stderr=1"), "some words");
    assert_eq!(frames[..3], [0x82, 1, 1], "nothing on the lowest channel");
    assert_eq!(frames[3..5], [0x82, 126]);
    let end = frames.len() - 4;
    assert_eq!(frames[end..], [0x88, 2, 0x03, 0xe8]);
    assert_eq!((usize::from(frames[5]) << 8) + usize::from(frames[6]), end - 7);
    assert_eq!(frames[7], 3);
    let status: serde_json::Value = serde_json::from_slice(&frames[8..end]).unwrap();
    assert_eq!(status["message"], "Internal error occurred: some words");
    assert_eq!(channel::frames(&Query::parse("stderr=1"), "")[2], 2);
    assert_eq!(channel::frames(&Query::parse("stdin=1"), "")[2], 3);
}

/// A kubelet that answers with the code in `tailLines`, where it listens, and what it was asked.
async fn kubelet(host: &Host, authority: &Authority) -> (u16, mpsc::UnboundedReceiver<String>) {
    let own = authority.issue_server(&[], host.clock.now()).unwrap();
    let serving = kubelet_server(authority.certificate(), &own).unwrap();
    let (address, mut listener) = host.net.listen_tcp("127.0.0.1:0").await.unwrap();
    let (heard, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            let Ok(stream) = TlsAcceptor::from(serving.clone()).accept(stream).await else { continue };
            let heard = heard.clone();
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let _ = heard.send(request.uri().to_string());
                let code =
                    Query::parse(request.uri().query().unwrap_or_default()).count("tailLines").unwrap();
                let code = StatusCode::from_u16(code.unwrap_or(200) as u16).unwrap();
                let answer = Response::builder().status(code).body(Full::new(Bytes::from("some words\n")));
                std::future::ready(answer)
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (address.port(), requests)
}

#[tokio::test]
async fn kubelets_answer_nobody_else() {
    let (host, _) = fake::host(1);
    let now = host.clock.now();
    let (authority, other) = (Authority::ephemeral(now).unwrap(), Authority::ephemeral(now).unwrap());
    let (port, mut requests) = kubelet(&host, &authority).await;
    let endpoint = Endpoint { host: "127.0.0.1".into(), port };
    let stranger = other.issue_client("somebody", "system:masters", now).unwrap();
    let own = authority.issue_client("kube-apiserver-kubelet-client", "system:masters", now).unwrap();
    for (who, client, good) in
        [("nobody", None, false), ("a stranger", Some(&stranger), false), ("the server", Some(&own), true)]
    {
        let client = kubelet_client(Some(authority.certificate()), client).unwrap();
        let proxy = NodeProxy::new(host.net.clone(), client, &["InternalIP"]);
        let request = http::Request::get("/healthz").body(http_body_util::Empty::new()).unwrap();
        let answer =
            tokio::time::timeout(Duration::from_secs(20), proxy.send(&endpoint, request, Trust::Verified))
                .await;
        assert_eq!(answer.unwrap().is_ok(), good, "{who}");
        assert_eq!(requests.try_recv().is_ok(), good, "{who}");
    }
    let fooled = kubelet_client(Some(other.certificate()), Some(&own)).unwrap();
    let proxy = NodeProxy::new(host.net.clone(), fooled, &["InternalIP"]);
    let request = http::Request::get("/healthz").body(http_body_util::Empty::new()).unwrap();
    let refused = proxy.send(&endpoint, request.clone(), Trust::Verified).await;
    assert!(refused.is_err(), "a kubelet that nobody vouches for");
    assert!(proxy.send(&endpoint, request, Trust::Anybody).await.is_ok(), "who wants it gets it");
}

/// A server with one pod on a node whose kubelet answers with the code in `tailLines`.
async fn server_with_kubelet() -> (crate::Server, mpsc::UnboundedReceiver<String>, Host) {
    let (host, _) = fake::host(1);
    let now = host.clock.now();
    let authority = Authority::ephemeral(now).unwrap();
    let (port, requests) = kubelet(&host, &authority).await;
    let client = authority.issue_client("kube-apiserver-kubelet-client", "system:masters", now).unwrap();
    let client = kubelet_client(Some(authority.certificate()), Some(&client)).unwrap();
    let mut registry = registry();
    registry.add::<crate::kinds::node::NodeRules>();
    let server = crate::Server::new(crate::Store::memory(), registry, clock(), random());
    server.bootstrap().await.unwrap();
    server.set_node_proxy(NodeProxy::new(host.net.clone(), client, &["InternalIP"]));
    let node = json!({"metadata": {"name": "n"}, "status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    post(&server, "/api/v1/nodes", &node).await.ok();
    let mut object = pod("p");
    post(&server, PODS, &object).await.ok();
    object["metadata"]["name"] = "placed".into();
    object["spec"]["nodeName"] = "n".into();
    post(&server, PODS, &object).await.ok();
    let silent = json!({"metadata": {"name": "silent"}, "status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    }});
    post(&server, "/api/v1/nodes", &silent).await.ok();
    object["metadata"]["name"] = "silent".into();
    object["spec"]["nodeName"] = "silent".into();
    post(&server, PODS, &object).await.ok();
    object["metadata"]["name"] = "lost".into();
    object["spec"]["nodeName"] = "nowhere".into();
    post(&server, PODS, &object).await.ok();
    (server, requests, host)
}

#[tokio::test]
async fn logs_come_from_the_kubelet() {
    let (server, mut requests, _host) = server_with_kubelet().await;
    let log = |pod: &str, query: &str| format!("{PODS}/{pod}/log{query}");
    let answer =
        tokio::time::timeout(Duration::from_secs(20), get(&server, &log("placed", "?timestamps=1"))).await;
    assert_eq!(answer.unwrap().bytes, "some words\n");
    assert_eq!(requests.recv().await.unwrap(), "/containerLogs/default/placed/main?timestamps=true");
    let nothing = get(&server, &log("p", "")).await;
    assert_eq!((nothing.code, nothing.bytes.len()), (204, 0));
    let words = |text: &str| format!("{text} ( pods/log placed)");
    let cases = [
        ("lost", "", 404, "pods \"nowhere\" not found".to_owned()),
        ("none", "", 404, "pods \"none\" not found".to_owned()),
        ("placed", "?container=z", 400, "container z is not valid for pod placed".to_owned()),
        ("placed", "?tailLines=400", 400, "some words\n".to_owned()),
        ("placed", "?tailLines=403", 403, words("some words\n")),
        ("placed", "?tailLines=404", 404, words("the server could not find the requested resource")),
        ("placed", "?tailLines=409", 409, words("the server reported a conflict")),
        (
            "placed",
            "?tailLines=502",
            502,
            words("an error on the server (\"some words\\n\") has prevented the request from succeeding"),
        ),
        (
            "silent",
            "",
            500,
            "Get \"https://127.0.0.1:1/containerLogs/default/silent/main\": dial tcp 127.0.0.1:1: connect: connection refused".to_owned(),
        ),
        ("placed", "?tailLines=500", 500, "Internal error occurred: some words\n".to_owned()),
        (
            "none",
            "?tailLines=-1&limitBytes=0",
            422,
            "PodLogOptions \"none\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0]".to_owned(),
        ),
        ("p", "?tailLines=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        (
            "p",
            "?tailLines=99999999999999999999",
            400,
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned(),
        ),
        (
            "p",
            "?sinceTime=2026-02-30T00:00:00Z",
            400,
            "parsing time \"2026-02-30T00:00:00Z\": day out of range".to_owned(),
        ),
    ];
    for (pod, query, code, message) in cases {
        let answer = get(&server, &log(pod, query)).await;
        assert_eq!((answer.code, answer.body["message"].as_str().unwrap()), (code, message.as_str()));
    }
    assert_eq!(post(&server, &log("placed", ""), &json!({})).await.code, 405);
}

#[tokio::test]
async fn sessions_need_an_upgrade() {
    let (server, _requests, _host) = server_with_kubelet().await;
    let cases = [
        ("p", 400, "pod p does not have a host assigned"),
        ("placed", 400, "Upgrade request required"),
        ("lost", 404, "pods \"nowhere\" not found"),
    ];
    for (pod, code, message) in cases {
        let answer = get(&server, &format!("{PODS}/{pod}/exec?command=ls&stdout=true")).await;
        assert_eq!((answer.code, answer.body["message"].as_str().unwrap()), (code, message));
    }
}

/// The right to read a subresource is not the right to run something, whatever the method.
#[tokio::test]
async fn to_run_is_to_create() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let server = full_server().await;
    for (user, verbs) in [("ann", json!(["get"])), ("bob", json!(["get", "create"]))] {
        let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]);
        let role = json!({"metadata": {"name": user}, "rules": rules});
        post(&server, &format!("{RBAC}/roles"), &role).await.ok();
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        post(&server, &format!("{RBAC}/rolebindings"), &binding).await.ok();
    }
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let cases = [
        ("ann", 403, "pods \"p\" is forbidden: "),
        ("bob", 404, "pods \"p\" not found"),
        ("cid", 403, "User \"cid\" cannot get resource \"pods/exec\""),
    ];
    for (user, code, message) in cases {
        for headers in [&upgrade[..], &[]] {
            let headers: Vec<_> = [("impersonate-user", user)].iter().chain(headers).copied().collect();
            let path = format!("{PODS}/p/exec?command=ls&stdout=true");
            let (head, body) = from_outside(&server, http::Method::GET, &path, &headers).await;
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(head.status.as_u16(), code, "{user}: {body}");
            assert!(body["message"].as_str().unwrap().contains(message), "{user}: {body}");
        }
    }
}
