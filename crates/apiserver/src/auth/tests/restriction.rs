//! What kubelets may write, in upstream's words.

use http::Method;
use serde_json::{Value, json};

use super::{Who, done, masters, post, send, server, told};
use crate::server::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

fn n1() -> Who {
    Who::node("n1")
}

async fn refused(server: &Server, method: Method, path: &str, body: Value, message: &str) {
    let found = told(send(server, &n1(), method, path, Some(body)).await);
    assert_eq!(found, (403, message.to_owned()), "{path}");
}

#[tokio::test]
async fn its_own_node() {
    let server = server().await;
    let node = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    let why = r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#;
    refused(&server, Method::POST, NODES, node("n2", json!({})), why).await;
    let labels =
        json!({"node-role.kubernetes.io/master": "", "x.node-restriction.kubernetes.io/a": "b", "ok": "y"});
    let why = r#"nodes "n1" is forbidden: node "n1" is not allowed to set the following labels: node-role.kubernetes.io/master, x.node-restriction.kubernetes.io/a"#;
    refused(&server, Method::POST, NODES, node("n1", labels), why).await;
    let fine = json!({
        "kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "z",
        "beta.kubernetes.io/arch": "x", "node.kubernetes.io/z": "1", "a.kubelet.kubernetes.io/b": "", "own.io/x": "",
    });
    done(post(&server, &n1(), NODES, node("n1", fine)).await);

    let own = format!("{NODES}/n1");
    let why = |what: &str| format!(r#"nodes "n1" is forbidden: {what}"#);
    let labels = json!({"metadata": {"labels": {"foo.k8s.io/a": "x", "kubernetes.io/hostname": "n2"}}});
    refused(&server, Method::PATCH, &own, labels, &why("is not allowed to modify labels: foo.k8s.io/a"))
        .await;
    let taints = json!({"spec": {"taints": null}});
    refused(&server, Method::PATCH, &own, taints, &why(r#"node "n1" is not allowed to modify taints"#)).await;
    let owners = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]}});
    refused(
        &server,
        Method::PATCH,
        &own,
        owners,
        &why(r#"node "n1" is not allowed to modify ownerReferences"#),
    )
    .await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    done(send(&server, &n1(), Method::PATCH, &format!("{own}/status"), Some(status.clone())).await);
    done(post(&server, &masters(), NODES, node("n2", json!({}))).await);
    let why = r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#;
    refused(&server, Method::PATCH, &format!("{NODES}/n2/status"), status, why).await;
}

#[tokio::test]
async fn its_own_lease_and_csi_node() {
    let server = server().await;
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    let why = r#"csinodes.storage.k8s.io "x" is forbidden: can only access CSINode with the same name as the requesting node"#;
    refused(&server, Method::POST, CSI_NODES, named("x"), why).await;
    done(post(&server, &n1(), CSI_NODES, named("n1")).await);
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    let why = r#"leases.coordination.k8s.io "x" is forbidden: can only access node lease with the same name as the requesting node"#;
    refused(&server, Method::POST, LEASES, lease("x"), why).await;
    done(post(&server, &n1(), LEASES, lease("n1")).await);
}

async fn with_pods() -> Server {
    let server = server().await;
    for node in ["n1", "n2"] {
        done(post(&server, &masters(), NODES, json!({"metadata": {"name": node}})).await);
        let pod = json!({
            "metadata": {"name": format!("on-{node}")},
            "spec": {"nodeName": node, "serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}]},
        });
        done(post(&server, &masters(), PODS, pod.clone()).await);
        let tokens = [json!({"path": "token"}), json!({"path": "other", "audience": "bank"})];
        let sources = tokens.map(|token| json!({"serviceAccountToken": token}));
        let mut with_tokens = pod;
        with_tokens["metadata"]["name"] = format!("tokens-on-{node}").into();
        with_tokens["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": sources}}]);
        done(post(&server, &masters(), PODS, with_tokens).await);
    }
    let account = json!({"metadata": {"name": "sa"}});
    done(post(&server, &masters(), "/api/v1/namespaces/default/serviceaccounts", account).await);
    server
}

#[tokio::test]
async fn its_own_pods() {
    let server = with_pods().await;
    let status = json!({"status": {"phase": "Running"}});
    done(send(&server, &n1(), Method::PATCH, &format!("{PODS}/on-n1/status"), Some(status.clone())).await);
    let why = r#"pods "on-n2" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set to itself"#;
    refused(&server, Method::PATCH, &format!("{PODS}/on-n2/status"), status, why).await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let why = r#"pods "on-n1" is forbidden: node "n1" cannot update labels through pod status"#;
    refused(&server, Method::PATCH, &format!("{PODS}/on-n1/status"), labels, why).await;
    let why = r#"pods "on-n2" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself"#;
    refused(&server, Method::DELETE, &format!("{PODS}/on-n2"), json!({}), why).await;
    done(send(&server, &n1(), Method::DELETE, &format!("{PODS}/on-n1"), None).await);
}

#[tokio::test]
async fn evictions_of_its_own_pods() {
    let server = with_pods().await;
    let eviction =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let path = |name: &str| format!("{PODS}/{name}/eviction");
    let why = r#"pods "on-n2" is forbidden: node n1 can only evict pods with spec.nodeName set to itself"#;
    refused(&server, Method::POST, &path("on-n2"), eviction("on-n2"), why).await;
    // Whose pod it is counts before what the body says.
    refused(&server, Method::POST, &path("on-n2"), eviction("on-n1"), why).await;
    let nobody = told(post(&server, &n1(), &path("nobody"), eviction("nobody")).await);
    assert_eq!(nobody, (404, r#"pods "nobody" not found"#.to_owned()));
    let stays = done(super::get(&server, &masters(), &format!("{PODS}/on-n2")).await);
    assert!(stays["metadata"]["deletionTimestamp"].is_null() && stays["status"]["conditions"].is_null());
    let evicted = post(&server, &n1(), &path("on-n1"), eviction("on-n1")).await;
    assert_eq!(evicted.0, 201);
    let goes = done(super::get(&server, &masters(), &format!("{PODS}/on-n1")).await);
    assert!(goes["metadata"]["deletionTimestamp"].is_string(), "{goes}");
}

#[tokio::test]
async fn mirror_pods() {
    let server = with_pods().await;
    let uid = done(super::get(&server, &masters(), &format!("{NODES}/n1")).await)["metadata"]["uid"].clone();
    let mut pod = json!({
        "metadata": {"name": "m"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let why = |what: &str| format!(r#"pods "m" is forbidden: {what}"#);
    let mut owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "wrong"});
    let can_only = |what: &str| why(&format!(r#"node "n1" can only create pods with {what} set to itself"#));
    let no_mirror = r#"pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods"#;
    refused(&server, Method::POST, PODS, pod.clone(), &why(no_mirror)).await;
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    refused(&server, Method::POST, PODS, pod.clone(), &can_only("spec.nodeName")).await;
    pod["spec"]["nodeName"] = "n1".into();
    refused(&server, Method::POST, PODS, pod.clone(), &can_only("an owner reference")).await;
    pod["metadata"]["ownerReferences"] = json!([owner]);
    refused(&server, Method::POST, PODS, pod.clone(), &can_only("an owner reference")).await;
    owner["name"] = "n1".into();
    pod["metadata"]["ownerReferences"] = json!([owner]);
    refused(&server, Method::POST, PODS, pod.clone(), &can_only("a controller owner reference")).await;
    owner["controller"] = true.into();
    pod["metadata"]["ownerReferences"] = json!([owner]);
    let mismatch = why(&format!("node n1 UID mismatch: expected wrong got {}", uid.as_str().unwrap()));
    refused(&server, Method::POST, PODS, pod.clone(), &mismatch).await;
    owner["uid"] = uid;
    pod["metadata"]["ownerReferences"] = json!([owner]);
    let mut referring = pod.clone();
    referring["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]);
    let can_not = why(r#"node "n1" can not create pods that reference persistentvolumeclaims"#);
    refused(&server, Method::POST, PODS, referring, &can_not).await;
    done(post(&server, &n1(), PODS, pod).await);
}

#[tokio::test]
async fn tokens_for_its_own_pods() {
    let server = with_pods().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/sa/token";
    let uid = |name: &'static str| {
        let server = server.clone();
        async move {
            done(super::get(&server, &masters(), &format!("{PODS}/{name}")).await)["metadata"]["uid"].clone()
        }
    };
    let (own, other) = (uid("on-n1").await, uid("on-n2").await);
    let bound = |name: &str, uid: &Value| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}});
    let why = |what: &str| format!(r#"serviceaccounts "sa" is forbidden: {what}"#);
    refused(&server, Method::POST, path, json!({}), &why("node requested token not bound to a pod")).await;
    let no_uid = why("node requested token with a pod binding without a uid");
    refused(&server, Method::POST, path, bound("on-n1", &Value::Null), &no_uid).await;
    let elsewhere = why("node requested token bound to a pod scheduled on a different node");
    refused(&server, Method::POST, path, bound("on-n2", &other), &elsewhere).await;
    let mismatch = format!(
        "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
        other.as_str().unwrap()
    );
    refused(&server, Method::POST, path, bound("on-n1", &other), &why(&mismatch)).await;
    let mut foreign = bound("on-n1", &own);
    foreign["spec"]["audiences"] = json!(["vault"]);
    let audience = r#"audience "vault" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"#;
    refused(&server, Method::POST, path, foreign, &why(audience)).await;
    // A pod without a token of this server's in its volumes gets none.
    let audience = r#"audience "" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"#;
    refused(&server, Method::POST, path, bound("on-n1", &own), &why(audience)).await;
}

/// A volume that names no audience is filled by a request that names none; the server's own comes after the check.
#[tokio::test]
async fn tokens_that_the_volumes_of_its_pods_ask_for() {
    let server = with_pods().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/sa/token";
    let pod = done(super::get(&server, &masters(), &format!("{PODS}/tokens-on-n1")).await);
    let bound = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "tokens-on-n1", "uid": pod["metadata"]["uid"],
    });
    for (audiences, want) in
        [(json!(null), super::ISSUER), (json!([]), super::ISSUER), (json!(["bank"]), "bank")]
    {
        let body = json!({"spec": {"audiences": audiences, "boundObjectRef": bound}});
        let (code, issued) = post(&server, &n1(), path, body).await;
        assert_eq!((code, &issued["spec"]["audiences"]), (201, &json!([want])), "{issued}");
    }
    // Upstream reads the request literally: nothing in the pod asks for this name.
    let named = json!({"spec": {"audiences": [super::ISSUER], "boundObjectRef": bound}});
    assert_eq!(post(&server, &n1(), path, named).await.0, 403);
}
