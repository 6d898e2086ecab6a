//! Clients of the ports of a kubelet and of kube-controller-manager, which ask the API server about them: without
//! credentials, with tokens, and with certificates.

use std::path::Path;

use bowline_api::{Pod, ServiceAccount};
use bowline_apiserver::certs::{Authority, Credentials};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{LogParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::process::Command;

use super::programs::Setup;
use super::support::PATIENCE;
use super::support::https::get;
use super::support::objects::create;
use super::support::peers::peer;

/// The user that kubelets know the API server by.
const API_SERVER: &str = "kube-apiserver-kubelet-client";
const GROUP: &str = "rbac.authorization.k8s.io";

/// Flags of the API server for its requests to kubelets.
pub fn of_api_server(dir: &Path, authority: &Authority) -> [String; 3] {
    let issued = authority.issue_client(API_SERVER, "people", jiff::Timestamp::now()).expect("a certificate");
    let (certificate, key) = (dir.join("kubelet-client.crt"), dir.join("kubelet-client.key"));
    std::fs::write(&certificate, issued.certificate).expect("written");
    std::fs::write(&key, issued.key).expect("written");
    [
        format!("--kubelet-client-certificate={}", certificate.display()),
        format!("--kubelet-client-key={}", key.display()),
        // This machine cannot look up the name of the node.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
    ]
}

/// The API server may use kubelets, `scraper` may read metrics, as a user and as an account.
pub async fn grant_rights(client: &Client) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]);
    let role = json!({"metadata": {"name": "scraper"}, "rules": rules});
    let roles: Api<ClusterRole> = Api::all(client.clone());
    create(&roles, &serde_json::from_value(role).expect("a role")).await.expect("created");
    let user = |name: &str| json!({"apiGroup": GROUP, "kind": "User", "name": name});
    let account = json!({"kind": "ServiceAccount", "name": "scraper", "namespace": "default"});
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    for (name, role, subjects) in [
        ("scraper", "scraper", json!([user("scraper"), account])),
        ("apiserver", "system:kubelet-api-admin", json!([user(API_SERVER)])),
    ] {
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
        let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects});
        create(&bindings, &serde_json::from_value(binding).expect("a binding")).await.expect("created");
    }
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    for name in ["scraper", "stranger"] {
        let account = json!({"metadata": {"name": name}});
        create(&accounts, &serde_json::from_value(account).expect("an account")).await.expect("created");
    }
    // A refusal would be kept by the programs for a while.
    let review = json!({"spec": {"user": API_SERVER, "resourceAttributes":
        {"resource": "nodes", "subresource": "proxy", "verb": "create", "name": super::NODE}}});
    let review: SubjectAccessReview = serde_json::from_value(review).expect("a review");
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let allowed = async {
        let how = PostParams::default();
        while !reviews
            .create(&how, &review)
            .await
            .expect("an answer")
            .status
            .is_some_and(|status| status.allowed)
        {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, allowed).await.expect("the rights count");
}

/// Each with its own answer, which is the status, or none where the handshake fails.
pub async fn are_reviewed(setup: &Setup, client: &Client, kubelet: u16, manager: u16) {
    let scraper = token(client, "scraper").await;
    let stranger = token(client, "stranger").await;
    let [admin, user, other] = [("admin", "system:masters"), ("scraper", "people"), ("stranger", "people")]
        .map(|(name, group)| certificate(setup, &setup.authority, name, group));
    let foreign = Authority::open(&setup.path("foreign"), jiff::Timestamp::now()).expect("an authority");
    let foreign = certificate(setup, &foreign, "foreign", "system:masters");
    let (nothing, wrong) = (json!({}), json!({"token": "wrong"}));
    let exec = "/exec/default/p/main?command=id";
    for (port, who, path, expected) in [
        (kubelet, &nothing, "/healthz", Some(401)),
        (kubelet, &nothing, exec, Some(401)),
        (kubelet, &wrong, "/metrics", Some(401)),
        (kubelet, &scraper, "/metrics", Some(200)),
        (kubelet, &scraper, exec, Some(403)),
        (kubelet, &stranger, "/metrics", Some(403)),
        (kubelet, &admin, "/healthz", Some(200)),
        (kubelet, &user, "/metrics", Some(200)),
        (kubelet, &user, exec, Some(403)),
        (kubelet, &other, "/metrics", Some(403)),
        (kubelet, &foreign, "/metrics", Some(401)),
        (manager, &nothing, "/healthz", Some(200)),
        (manager, &nothing, "/metrics", Some(403)),
        (manager, &wrong, "/metrics", Some(401)),
        (manager, &scraper, "/metrics", Some(200)),
        (manager, &scraper, "/configz", Some(403)),
        (manager, &stranger, "/metrics", Some(403)),
        (manager, &admin, "/metrics", Some(200)),
        (manager, &user, "/metrics", Some(200)),
        (manager, &user, "/configz", Some(403)),
        (manager, &other, "/metrics", Some(403)),
        (manager, &foreign, "/metrics", Some(401)),
    ] {
        let program = if port == kubelet { "kubelet" } else { "kube-controller-manager" };
        let (status, _) = get(&format!("https://127.0.0.1:{port}"), who, path).await;
        assert_eq!(status, expected, "{program} {path} {who}");
    }
}

/// The durations of operations on volumes, under upstream's names.
pub async fn find_operations(client: &Client, port: u16, operations: &[&str]) {
    let who = token(client, "scraper").await;
    let server = format!("https://127.0.0.1:{port}");
    let sample = |operation: &&str| {
        let labels = format!(
            "migrated=\"false\",operation_name=\"{operation}\",status=\"success\",volume_plugin=\"kubernetes.io/csi:{}\"",
            super::DRIVER
        );
        format!("storage_operation_duration_seconds_count{{{labels}}} 1\n")
    };
    let wanted: Vec<String> = operations.iter().map(sample).collect();
    let found = async {
        loop {
            let (_, page) = get(&server, &who, "/metrics").await;
            if wanted.iter().all(|sample| page.contains(sample)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("never all of {operations:?}"));
}

/// Logs and exec go through the API server to a kubelet that reviews them.
pub async fn reach_the_pod(setup: &Setup, client: &Client) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.logs("p", &LogParams::default()).await.expect("logs");
    let mut exec = Command::new(peer("kubectl"));
    exec.arg("--kubeconfig").arg(setup.path("data/kubeconfig"));
    // Running does not say that the script has come to its file.
    let script = "until [ -s /data/file ]; do sleep 0.05; done; cat /data/file";
    exec.args(["exec", "p", "--", "/bin/sh", "-c", script]).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, exec.output()).await.expect("it ends").expect("it runs");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(said(&output.stdout), "kept\n", "{}", said(&output.stderr));
}

async fn token(client: &Client, name: &str) -> Value {
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let request = TokenRequest::default();
    let issued = accounts.create_token_request(name, &PostParams::default(), &request).await;
    json!({"token": issued.expect("a token").status.expect("a token").token})
}

fn certificate(setup: &Setup, authority: &Authority, name: &str, group: &str) -> Value {
    let issued = authority.issue_client(name, group, jiff::Timestamp::now());
    let Credentials { certificate, key } = issued.expect("a certificate");
    let files = [setup.path(&format!("{name}.crt")), setup.path(&format!("{name}.key"))];
    std::fs::write(&files[0], certificate).expect("written");
    std::fs::write(&files[1], key).expect("written");
    json!({"client-certificate": files[0], "client-key": files[1]})
}
