//! What kubelets may read. The reasons are upstream's, seen on a real server.

use std::collections::BTreeSet;

use bowline_api::ObjectKey;
use http::Method;
use serde_json::json;

use super::{Who, done, get, masters, post, send, server, told};
use crate::auth::attributes::Attributes;
use crate::auth::node::decide;

/// Whether a request passes, and why not; secrets `s`, pods `p` and so on of namespace `a` are the node's.
fn answer(method: &Method, path: &str, query: &str) -> Result<(), String> {
    let own: BTreeSet<&str> = ["s", "c", "claim", "pv", "va", "sa", "p"].into();
    let needs =
        |key: &ObjectKey| matches!(key.namespace.as_str(), "a" | "") && own.contains(key.name.as_str());
    let decision = decide("n1", &Attributes::of(method, path, query), |_, key| needs(key));
    if decision.allowed { Ok(()) } else { Err(decision.reason) }
}

#[test]
fn table() {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let foreign = "no relationship found between node 'n1' and this object";
    let leases = "/apis/coordination.k8s.io/v1/namespaces";
    let table: [(&Method, String, Result<(), &str>); 43] = [
        (&get, "/api/v1/namespaces/a/secrets/s".into(), Ok(())),
        (&get, "/api/v1/namespaces/a/secrets/x".into(), Err(foreign)),
        (&get, "/api/v1/namespaces/b/secrets/s".into(), Err(foreign)),
        (&get, "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds".into(), Ok(())),
        (&get, "/api/v1/namespaces/a/secrets".into(), Err("No Object name found")),
        (&get, "/api/v1/secrets".into(), Err("can only read namespaced object of this type")),
        (&post, "/api/v1/namespaces/a/secrets".into(), Err("can only read resources of this type")),
        (&get, "/api/v1/namespaces/a/secrets/s/x".into(), Err("cannot read subresource")),
        (&get, "/api/v1/namespaces/a/configmaps/c".into(), Ok(())),
        (&put, "/api/v1/namespaces/a/configmaps/c".into(), Err("can only read resources of this type")),
        (&get, "/api/v1/namespaces/a/persistentvolumeclaims/claim".into(), Ok(())),
        (
            &get,
            "/api/v1/namespaces/a/persistentvolumeclaims".into(),
            Err("can only get individual resources of this type"),
        ),
        (&put, "/api/v1/namespaces/a/persistentvolumeclaims/claim/status".into(), Ok(())),
        (
            &get,
            "/api/v1/namespaces/a/persistentvolumeclaims/claim/status".into(),
            Err("can only get/update/patch this type"),
        ),
        (&put, "/api/v1/namespaces/a/persistentvolumeclaims/x/status".into(), Err(foreign)),
        (&get, "/api/v1/persistentvolumes/pv".into(), Ok(())),
        (&get, "/api/v1/persistentvolumes".into(), Err("can only get individual resources of this type")),
        (&get, "/apis/storage.k8s.io/v1/volumeattachments/va".into(), Ok(())),
        (&get, "/apis/storage.k8s.io/v1/volumeattachments/va/status".into(), Err("cannot get subresource")),
        (&get, "/api/v1/namespaces/a/serviceaccounts/sa".into(), Ok(())),
        (&post, "/api/v1/namespaces/a/serviceaccounts/sa/token".into(), Ok(())),
        (&post, "/api/v1/namespaces/a/serviceaccounts/x/token".into(), Err(foreign)),
        (
            &post,
            "/api/v1/namespaces/a/serviceaccounts".into(),
            Err("can only create tokens for individual service accounts"),
        ),
        (&get, format!("{leases}/kube-node-lease/leases/n1"), Ok(())),
        (&post, format!("{leases}/kube-node-lease/leases"), Ok(())),
        (
            &get,
            format!("{leases}/kube-node-lease/leases/x"),
            Err("can only access node lease with the same name as the requesting node"),
        ),
        (
            &get,
            format!("{leases}/kube-node-lease/leases"),
            Err("can only get, create, update, patch, or delete a node lease"),
        ),
        (
            &get,
            format!("{leases}/a/leases/n1"),
            Err("can only access leases in the \"kube-node-lease\" system namespace"),
        ),
        (&put, "/apis/storage.k8s.io/v1/csinodes/n1".into(), Ok(())),
        (
            &get,
            "/apis/storage.k8s.io/v1/csinodes/x".into(),
            Err("can only access CSINode with the same name as the requesting node"),
        ),
        (
            &get,
            "/apis/storage.k8s.io/v1/csinodes".into(),
            Err("can only get, create, update, patch, or delete a CSINode"),
        ),
        (&get, "/api/v1/nodes/n1".into(), Ok(())),
        (&get, "/api/v1/nodes".into(), Err("node 'n1' cannot read all nodes, only its own Node object")),
        (&get, "/api/v1/nodes/x".into(), Err("node 'n1' cannot read 'x', only its own Node object")),
        (&delete, "/api/v1/nodes/n1".into(), Err("")),
        (&get, "/api/v1/namespaces/a/pods/p".into(), Ok(())),
        (&get, "/api/v1/namespaces/a/pods/x".into(), Err(foreign)),
        (&get, "/api/v1/pods".into(), Err("can only list/watch pods with spec.nodeName field selector")),
        (&get, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".into(), Ok(())),
        (&put, "/api/v1/namespaces/a/pods/x".into(), Err("")),
        (&get, "/api/v1/services".into(), Ok(())),
        (&get, "/api/v1/endpoints".into(), Err("")),
        (&get, "/version".into(), Err("")),
    ];
    for (method, path, want) in table {
        let (bare, query) = path.split_once('?').unwrap_or((&path, ""));
        assert_eq!(answer(method, bare, query), want.map_err(str::to_owned), "{method} {path}");
    }
}

#[tokio::test]
async fn a_node_reads_what_its_pods_need() {
    let server = server().await;
    let admin = masters();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, node: &str, volumes: serde_json::Value| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": node, "volumes": volumes, "imagePullSecrets": [{"name": "pull"}],
                "containers": [{
                    "name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "env"}}],
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}],
                }],
            },
        })
    };
    let volumes = json!([
        {"name": "s", "secret": {"secretName": "mounted"}},
        {"name": "p", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "map"}}]}},
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}}},
    ]);
    done(post(&server, &admin, pods, pod("one", "n1", volumes)).await);
    done(post(&server, &admin, pods, pod("two", "n2", json!([]))).await);
    let volume = json!({
        "metadata": {"name": "pv"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "data"},
            "csi": {
                "driver": "d.io", "volumeHandle": "h",
                "nodeStageSecretRef": {"name": "stage", "namespace": "kube-system"},
                "controllerPublishSecretRef": {"name": "publish", "namespace": "kube-system"},
            },
        },
    });
    done(post(&server, &admin, "/api/v1/persistentvolumes", volume).await);
    let attachment = json!({
        "metadata": {"name": "va"},
        "spec": {"attacher": "d.io", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
    });
    done(post(&server, &admin, "/apis/storage.k8s.io/v1/volumeattachments", attachment).await);

    let there = "/api/v1/namespaces/default";
    let table = [
        (format!("{there}/pods/one"), true),
        (format!("{there}/pods/two"), false),
        (format!("{there}/secrets/mounted"), true),
        (format!("{there}/secrets/projected"), true),
        (format!("{there}/secrets/key"), true),
        (format!("{there}/secrets/pull"), true),
        (format!("{there}/secrets/other"), false),
        (format!("{there}/configmaps/env"), true),
        (format!("{there}/configmaps/map"), true),
        (format!("{there}/persistentvolumeclaims/data"), true),
        (format!("{there}/persistentvolumeclaims/one-e"), true),
        (format!("{there}/serviceaccounts/default"), true),
        ("/api/v1/persistentvolumes/pv".into(), true),
        ("/api/v1/namespaces/kube-system/secrets/stage".into(), true),
        ("/api/v1/namespaces/kube-system/secrets/publish".into(), false),
        ("/apis/storage.k8s.io/v1/volumeattachments/va".into(), true),
    ];
    for (path, allowed) in &table {
        let code = get(&server, &Who::node("n1"), path).await.0;
        assert_eq!(code != 403, *allowed, "{path}: {code}");
        assert_eq!(get(&server, &Who::node("n3"), path).await.0, 403, "another node: {path}");
    }
    assert_ne!(get(&server, &Who::node("n2"), &format!("{there}/secrets/pull")).await.0, 403);

    // The last pod that needs something takes the right along.
    done(send(&server, &admin, Method::DELETE, &format!("{pods}/one?gracePeriodSeconds=0"), None).await);
    for (path, _) in &table[..15] {
        assert_eq!(get(&server, &Who::node("n1"), path).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn nodes_that_cannot_be_told_apart() {
    let server = server().await;
    let (code, message) = told(get(&server, &Who::node(""), "/api/v1/pods").await);
    assert_eq!(code, 403);
    assert!(message.ends_with(r#": unknown node for user "system:node:""#), "{message}");
    let no_group = Who::named("system:node:n1", &[]);
    let (_, message) = told(get(&server, &no_group, "/api/v1/nodes").await);
    assert!(message.ends_with("at the cluster scope"), "{message}");
}
