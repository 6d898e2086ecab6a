//! Pages of programs, asked for with any credentials.

use std::time::Duration;

use kube::Client;
use kube::config::KubeConfigOptions;
use serde_json::{Value, json};

use super::PATIENCE;

/// The status, or none where the connection or its handshake fails, and the page. `who` is a user as kubeconfigs have it.
pub async fn get(server: &str, who: &Value, path: &str) -> (Option<u16>, String) {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "u", "user": who}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    let config = serde_json::from_value(config).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("a configuration")).expect("a client");
    match client.request_text(http::Request::get(path).body(Vec::new()).expect("a request")).await {
        Ok(text) => (Some(200), text),
        Err(kube::Error::Api(status)) => (Some(status.code), status.message.clone()),
        Err(_) => (None, String::new()),
    }
}

/// The page, as soon as there is one with this text; it is asked for without credentials.
pub async fn page_with(server: &str, path: &str, text: &str) -> String {
    let found = async {
        loop {
            let (_, page) = get(server, &json!({}), path).await;
            if page.contains(text) {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await;
    found.unwrap_or_else(|_| panic!("{server}{path} never had {text:?}"))
}
