//! Lines of the log, and what happens to it when it grows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bowline_host::Clock;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::file::LogFile;
use super::{Audit, AuditSettings};
use crate::auth::Settings;
use crate::auth::tests::{Who, get, post, send, server_on, server_with, static_tokens};
use crate::server::Server;
use crate::store::Store;
use crate::testing::{clock, store_that};

async fn audited(path: &Path) -> Server {
    audited_on(Store::memory(), path).await
}

async fn audited_on(store: Store, path: &Path) -> Server {
    let settings = AuditSettings { path: path.to_owned(), ..AuditSettings::default() };
    let static_tokens = static_tokens("root,root,1,system:masters\njoe,joe,2\n");
    let audit = Some(Audit::open(settings, clock()).unwrap());
    server_on(store, Settings { static_tokens, audit, ..Settings::default() }).await
}

/// The lines about requests from outside, in order.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_stage_of_every_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let server = audited(&path).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    assert_eq!(post(&server, &Who::bearer("root"), secrets, secret).await.0, 201);
    let agent = Who::bearer("joe").with("user-agent", "test/1").with("audit-id", "mine");
    assert_eq!(get(&server, &agent, &format!("{secrets}/s?pretty=true")).await.0, 403);
    assert_eq!(get(&server, &Who::bearer("hunter3"), "/version").await.0, 401);
    let acting = Who::bearer("root").with("impersonate-user", "ann");
    assert_eq!(get(&server, &acting, "/version").await.0, 200);
    assert_eq!(send(&server, &Who::anonymous(), Method::GET, "/healthz", None).await.0, 200);
    drop(server);

    let text = std::fs::read_to_string(&path).unwrap();
    for secret in ["hunter", "Bearer", "password"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
    let all = lines(&path);
    let brief: Vec<String> = all
        .iter()
        .map(|line| {
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let code = line["responseStatus"]["code"].to_string();
            [&text(&line["stage"]), &text(&line["user"]["username"]), &text(&line["verb"]), &code]
                .map(String::as_str)
                .join(" ")
        })
        .collect();
    let want = [
        "RequestReceived root create null",
        "ResponseComplete root create 201",
        "RequestReceived joe get null",
        "ResponseComplete joe get 403",
        "ResponseStarted - get 401",
        "RequestReceived root get null",
        "ResponseComplete root get 200",
        "RequestReceived system:anonymous get null",
        "ResponseComplete system:anonymous get 200",
    ];
    assert_eq!(brief, want);
    let refused = &all[3];
    assert_eq!((&refused["auditID"], &refused["userAgent"]), (&json!("mine"), &json!("test/1")));
    assert_eq!(refused["requestURI"], "/api/v1/namespaces/default/secrets/s?pretty=true");
    assert_eq!(
        refused["objectRef"],
        json!({"resource": "secrets", "namespace": "default", "name": "s", "apiVersion": "v1"})
    );
    assert_eq!(refused["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(refused["responseStatus"]["reason"], "Forbidden");
    assert_eq!(refused["stageTimestamp"], "2026-01-01T00:00:00.000000Z");
    assert_eq!(all[4]["responseStatus"]["message"], "Authentication failed, attempted: bearer");
    assert_eq!(all[6]["impersonatedUser"]["username"], "ann");
    assert_eq!(all[1]["annotations"]["authorization.k8s.io/decision"], "allow");
}

/// A refusal names the policy that was enforced; a policy that is only audited leaves its finding here alone.
#[tokio::test]
async fn pod_security_annotates_its_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let server = audited(&path).await;
    let label = |mode: &str| format!("pod-security.kubernetes.io/{mode}");
    let labels = json!({(label("enforce")): "baseline", (label("audit")): "restricted"});
    let namespace = json!({"metadata": {"name": "team", "labels": labels}});
    let root = Who::bearer("root");
    assert_eq!(post(&server, &root, "/api/v1/namespaces", namespace).await.0, 201);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"hostPID": true, "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(post(&server, &root, "/api/v1/namespaces/team/pods", pod).await.0, 403);
    drop(server);
    let annotations = lines(&path).pop().unwrap()["annotations"].clone();
    assert_eq!(annotations[label("enforce-policy")], "baseline:latest");
    let violations = annotations[label("audit-violations")].as_str().unwrap();
    let start = r#"would violate PodSecurity "restricted:latest": host namespaces (hostPID=true), allowPriv"#;
    assert!(violations.starts_with(start), "{violations}");
    assert_eq!(annotations["authorization.k8s.io/decision"], "allow");
}

#[tokio::test]
async fn a_watch_is_complete_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let server = audited(&path).await;
    let watch =
        crate::testing::watch(&server, "/api/v1/nodes?watch=1&resourceVersion=1", "application/json").await;
    drop(watch);
    drop(server);
    let stages: Vec<Value> = lines(&path).iter().map(|line| line["stage"].clone()).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
}

/// Hanging up undoes nothing, so the log tells of it.
#[tokio::test]
async fn a_request_whose_client_hangs_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let (begun, mut under_way) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, held) = std::sync::mpsc::channel();
    let hold = Arc::new(AtomicBool::new(false));
    let holding = hold.clone();
    let store = store_that(move || {
        if holding.load(Ordering::SeqCst) {
            begun.send(()).unwrap();
            held.recv().unwrap();
        }
        Ok(())
    });
    let server = audited_on(store.clone(), &path).await;
    let (who, secrets) = (Who::bearer("root"), "/api/v1/namespaces/default/secrets");
    assert_eq!(post(&server, &who, secrets, json!({"metadata": {"name": "s"}})).await.0, 201);

    hold.store(true, Ordering::SeqCst);
    let secret = format!("{secrets}/s");
    tokio::select! {
        answer = send(&server, &who, Method::DELETE, &secret, None) => panic!("nothing is written yet: {answer:?}"),
        waits = under_way.recv() => assert!(waits.is_some()),
    }
    let version = store.version();
    hold.store(false, Ordering::SeqCst);
    go_on.send(()).unwrap();
    let deleted = tokio::time::timeout(Duration::from_secs(10), store.reached(version + 1));
    deleted.await.expect("the secret goes all the same");
    drop(server);

    let all = lines(&path);
    let stages: Vec<&Value> = all.iter().map(|line| &line["stage"]).collect();
    let one = ["RequestReceived", "ResponseComplete"];
    assert_eq!(stages, [one, one].concat());
    let last = &all[3];
    assert_eq!((&last["verb"], &last["objectRef"]["name"]), (&json!("delete"), &json!("s")));
    assert_eq!(last["responseStatus"], json!({"metadata": {}, "message": "Connection closed early"}));
    assert_eq!(last["auditID"], all[2]["auditID"]);
}

struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + self.0.fetch_add(3600, Ordering::SeqCst)).unwrap()
    }
}

#[test]
fn a_full_file_is_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let settings = AuditSettings { path: path.clone(), max_size: 1, max_backups: 2, max_age: 0 };
    let mut file = LogFile::open(settings.clone(), Arc::new(Ticking(AtomicI64::new(0)))).unwrap();
    let line = vec![b'x'; 400 << 10];
    for _ in 0..10 {
        file.write(&line).unwrap();
    }
    file.flush().unwrap();
    let names = || {
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names().len(), 3, "the file and two old ones: {:?}", names());
    assert!(names()[0].starts_with("audit-2026-01-01T"), "{:?}", names());
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    assert!(names().iter().all(|name| size(name) <= 1 << 20));

    // Opened again it goes on where it was; old files go by their age.
    let settings = AuditSettings { max_age: 1, ..settings };
    let mut file = LogFile::open(settings, Arc::new(Ticking(AtomicI64::new(7 * 24 * 3600)))).unwrap();
    for _ in 0..2 {
        file.write(&line).unwrap();
    }
    file.flush().unwrap();
    assert_eq!(names().len(), 2, "{:?}", names());
}

/// Others may put the file aside, too, and what they leave beside it may be nothing that can be removed.
#[test]
fn a_file_that_went_away_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let settings = AuditSettings { path: path.clone(), max_size: 1, max_backups: 0, max_age: 1 };
    let mut file = LogFile::open(settings, Arc::new(Ticking(AtomicI64::new(0)))).unwrap();
    std::fs::create_dir(dir.path().join("audit-2020-01-01T00-00-00.000.log")).unwrap();
    let removable = dir.path().join("audit-2019-01-01T00-00-00.000.log");
    std::fs::write(&removable, "old").unwrap();
    let line = vec![b'x'; 600 << 10];
    file.write(&line).unwrap();
    file.write(&line).unwrap();
    assert!(!removable.exists(), "one that cannot be removed does not keep another");
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        file.write(&line).unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 600 << 10);
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_counted() {
    let settings = AuditSettings { path: "/dev/full".into(), max_size: 0, ..AuditSettings::default() };
    let audit = Audit::open(settings, clock()).unwrap();
    let lost = audit.lost.clone();
    let server = server_with(Settings { audit: Some(audit), ..Settings::default() }).await;
    for _ in 0..100 {
        assert_eq!(get(&server, &Who::anonymous(), "/healthz").await.0, 200, "requests go on");
    }
    drop(server);
    assert!(lost.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_place_that_cannot_be_written_is_told_at_once() {
    let settings = AuditSettings { path: "/proc/nope/audit.log".into(), ..AuditSettings::default() };
    let error = Audit::open(settings, clock()).err().unwrap().to_string();
    assert!(error.starts_with("open audit log `/proc/nope/audit.log`: "), "{error}");
}
