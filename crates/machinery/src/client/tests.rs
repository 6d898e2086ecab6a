use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use bowline_api::ConfigMap;
use http_body_util::BodyExt;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::effect::{EffectError, Fate};
use crate::fake_api::{self, Answer, json_answer, status, stream};

fn map() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
}

async fn create(client: &Client) -> Result<ConfigMap, EffectError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let object = serde_json::from_value(map()).unwrap();
    api.create(&PostParams::default(), &object).await.map_err(EffectError::from)
}

#[test]
fn the_flag_the_variable_and_the_pod_are_chosen_as_upstream_does() {
    let flag = Some(Path::new("/etc/flag"));
    let variable = |path: &str| Environment::Kubeconfig(Some(OsString::from(path)));
    let table = [
        (None, Environment::Ignored, Source::ServiceAccount),
        (Some(Path::new("")), Environment::Ignored, Source::ServiceAccount),
        (flag, Environment::Ignored, Source::File("/etc/flag".into())),
        (None, Environment::Kubeconfig(None), Source::ServiceAccount),
        (None, variable("/etc/variable"), Source::File("/etc/variable".into())),
        (flag, variable("/etc/variable"), Source::File("/etc/variable".into())),
        (flag, variable(""), Source::File("/etc/flag".into())),
    ];
    for (flag, environment, source) in table {
        assert_eq!(Source::choose(flag, &environment), source, "{flag:?} {environment:?}");
    }
}

/// B8: a half-open connection held a role for ever.
#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline_as_unknown() {
    let (client, seen) = fake_api::client(|_, _| None);
    let start = Instant::now();
    let error = create(&client).await.unwrap_err();
    assert_eq!(error.fate, Fate::Unknown);
    assert!(error.message.contains("no answer from the API server within 60s"), "{error}");
    assert!(start.elapsed() >= Duration::from_secs(60) && start.elapsed() < Duration::from_secs(61));
    assert_eq!(seen.lock().unwrap().len(), 1, "it may have landed: not repeated");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_halfway_ends_at_the_deadline_too() {
    let (lines, answer) = stream();
    lines.send(json!("half")).unwrap();
    let answer = std::sync::Mutex::new(Some(answer));
    let (client, _) = fake_api::client(move |_, _| answer.lock().unwrap().take());
    let start = Instant::now();
    let error = create(&client).await.unwrap_err();
    assert_eq!((error.fate, start.elapsed().as_secs()), (Fate::Unknown, 60), "{error}");
    assert!(error.message.contains("no answer from the API server"), "{error}");
}

/// A watch that the server does not even begin would hold up its kind for minutes.
#[tokio::test(start_paused = true)]
async fn a_watch_begins_within_the_deadline() {
    let (client, _) = fake_api::client(|_, _| None);
    let request = http::Request::get("/api/v1/configmaps?watch=true").body(Body::empty()).unwrap();
    let start = Instant::now();
    let error = tokio::time::timeout(Duration::from_secs(3600), client.send(request)).await.expect("an end");
    assert!(error.is_err());
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_no_deadline() {
    let (lines, answer) = stream();
    let answer = std::sync::Mutex::new(Some(answer));
    let (client, _) = fake_api::client(move |_, _| answer.lock().unwrap().take());
    let request = http::Request::get("/api/v1/configmaps?watch=true").body(Body::empty()).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    tokio::time::sleep(Duration::from_secs(300)).await;
    lines.send(json!("late")).unwrap();
    assert!(body.frame().await.unwrap().is_ok());
}

#[test]
fn only_streams_have_no_deadline() {
    let table = [
        ("/api/v1/pods?watch=true", true),
        ("/api/v1/pods?watch=1&limit=5", true),
        ("/api/v1/pods?watch=false", false),
        ("/api/v1/namespaces/a/pods/b/exec?command=sh", true),
        ("/api/v1/namespaces/a/pods/b/log?follow=true", true),
        ("/api/v1/namespaces/a/pods/b/log", false),
        ("/api/v1/nodes/a/proxy/stats/summary", true),
        // Names of objects.
        ("/api/v1/namespaces/a/pods/log", false),
        ("/api/v1/namespaces/a/configmaps/exec", false),
        ("/api/v1/namespaces/a/pods/proxy/status", false),
        ("/api/v1/nodes/proxy", false),
    ];
    for (uri, stream) in table {
        assert_eq!(line::is_stream(&Request::get(uri).body(()).unwrap()), stream, "{uri}");
    }
}

fn later(code: u16, seconds: Option<&str>) -> Answer {
    let mut answer = status(code, "TooManyRequests", "try again later");
    if let Some(seconds) = seconds {
        answer.headers_mut().insert("retry-after", seconds.parse().unwrap());
    }
    answer
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_with_jitter_and_within_bounds() {
    // What the server says first (a number of times), tries, and the seconds that pass.
    let table = [
        (429, Some("2"), 1, 2, 2.0..3.0, true),
        (503, Some("1"), 3, 4, 3.0..4.5, true),
        (429, Some("0"), 1, 2, 0.0..0.2, true),
        (429, Some("1"), 99, 11, 10.0..15.0, false),
        (429, Some("90"), 99, 1, 0.0..0.1, false),
        (429, Some("13000000000000000000"), 99, 1, 0.0..0.1, false),
        (429, Some("18446744073709551615"), 99, 1, 0.0..0.1, false),
        (429, Some("Thu, 01 Jan 2026 00:00:00 GMT"), 99, 1, 0.0..0.1, false),
        (429, None, 99, 1, 0.0..0.1, false),
        (500, None, 99, 1, 0.0..0.1, false),
        (409, Some("1"), 99, 1, 0.0..0.1, false),
    ];
    for (code, seconds, times, tries, took, done) in table {
        let left = std::sync::Mutex::new(times);
        let (client, seen) = fake_api::client(move |_, body| {
            let mut left = left.lock().unwrap();
            *left -= 1;
            Some(if *left >= 0 { later(code, seconds) } else { json_answer(201, body) })
        });
        let start = Instant::now();
        let answer = create(&client).await;
        let name = format!("{code} {seconds:?}: {answer:?} after {:?}", start.elapsed());
        assert_eq!(seen.lock().unwrap().len(), tries, "{name}");
        assert!(took.contains(&start.elapsed().as_secs_f64()), "{name}");
        assert_eq!(answer.is_ok(), done, "{name}");
    }
}

#[tokio::test]
async fn the_program_names_itself() {
    let line = Line::of("csi-attacher", "v1.2.3", bowline_host::fake::host(1).0.random);
    let (client, _) = fake_api::client_with(line, |parts, body| {
        assert_eq!(parts.headers["user-agent"], "csi-attacher/v1.2.3");
        Some(json_answer(201, body))
    });
    create(&client).await.unwrap();
}

async fn refusal(content: Option<&str>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    if let Some(content) = content {
        std::fs::write(&path, content).unwrap();
    }
    let client =
        connect(&Source::File(path.clone()), Line::default(), bowline_host::fake::host(1).0.disk).await;
    let error = match client {
        Ok(client) => check(&client).await.unwrap_err(),
        Err(error) => error,
    };
    error.to_string().replace(path.to_str().unwrap(), "CONFIG")
}

fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{{"name": "c", "context": {{"cluster": "k", "user": "u"}}}}],
            "clusters": [{{"name": "k", "cluster": {{"server": "{server}", "insecure-skip-tls-verify": true}}}}],
            "users": [{{"name": "u", "user": {user}}}]}}"#
    )
}

#[tokio::test]
async fn what_is_wrong_with_a_kubeconfig_is_said_in_one_line() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("https://{}", listener.local_addr().unwrap());
    drop(listener);
    let token = r#"{"token": "top-secret"}"#;
    let table = [
        (None, "read kubeconfig `CONFIG`: No such file or directory"),
        (Some("{".to_owned()), "use kubeconfig `CONFIG`: "),
        (
            Some(kubeconfig("https://x", "{}")),
            "its user has no client certificate, token, password or exec plugin",
        ),
        (Some(kubeconfig("https://x", r#"{"tokenFile": "/absent/token"}"#)), "/absent/token"),
        (Some(kubeconfig(&closed, token)), "reach the API server: "),
    ];
    for (content, text) in table {
        let error = refusal(content.as_deref()).await;
        assert!(error.contains(text), "{error}");
        assert!(!error.contains('\n') && !error.contains("top-secret"), "{error}");
    }
    let unreachable = refusal(Some(&kubeconfig(&closed, token))).await;
    assert!(unreachable.contains("refused"), "the cause is in it: {unreachable}");
}

#[tokio::test]
async fn refused_credentials_are_told_from_an_unreachable_server() {
    let (client, _) = fake_api::client(|_, _| Some(status(401, "Unauthorized", "Unauthorized")));
    let error = check(&client).await.unwrap_err().to_string();
    assert!(
        error.starts_with("log in to the API server: it refuses our credentials (Unauthorized)"),
        "{error}"
    );
    let (client, _) = fake_api::client(|_, _| Some(status(403, "Forbidden", "may not")));
    check(&client).await.unwrap();
}
