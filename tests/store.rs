//! `bowline store`: what it prints, its exit codes, and what it says when it cannot. And what a client hears of a write to
//! etcd whose answer is lost.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bowline_api::ObjectKey;
use bowline_apiserver::Store;
use bowline_apiserver::store::{Change, Expect, Write};
use serde_json::{Value, json};
use support::PATIENCE;
use support::apiserver::ApiServer;
use support::deaf::deaf_after;
use support::etcd::{self, Etcd};

fn bowline(arguments: &[&str], data_dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.arg("store").args(arguments).arg("--data-dir").arg(data_dir).env("RUST_LOG", "off");
    command.output().expect("run bowline")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Exit 1 and exactly one line, which has each of these.
fn assert_refused(output: &Output, wanted: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one sentence, not: {text}");
    for part in wanted {
        assert!(text.contains(part), "should say {part:?}: {text}");
    }
}

async fn write(store: &Store, name: &str) {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name}});
    let (resource, key): (Arc<str>, _) = ("configmaps".into(), ObjectKey::new("ns", name));
    let write = Write { resource, key, expect: Expect::Absent, change: Change::Put(object) };
    store.write(write).await.expect("written");
}

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory")
}

async fn filled(dir: &Path) -> Store {
    let store = Store::open_file(&dir.join("store")).expect("a store");
    write(&store, "a").await;
    write(&store, "b").await;
    store
}

#[tokio::test]
async fn check_compact_backup_restore() {
    let (old, new) = (scratch(), scratch());
    drop(filled(old.path()).await);
    let checked = bowline(&["check"], old.path());
    assert!(checked.status.success(), "{checked:?}");
    let lines: Vec<String> =
        text(&checked).lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines[1].starts_with("configmaps 2 "), "{lines:?}");
    assert!(lines[2].starts_with("total 2 ") && lines[3] == "resourceVersion 3", "{lines:?}");

    let compacted: Value =
        serde_json::from_str(&text(&bowline(&["compact", "-o", "json"], old.path()))).expect("JSON");
    assert!(compacted["bytesAfter"].as_u64() > Some(0), "{compacted}");

    let file = old.path().join("saved").display().to_string();
    let saved = bowline(&["backup", &file], old.path());
    assert_eq!(text(&saved), format!("2 objects at resourceVersion 3 saved to {file}\n"));
    assert_refused(&bowline(&["backup", &file], old.path()), &["File exists"]);

    assert!(bowline(&["restore", &file], new.path()).status.success());
    let report = |dir: &Path| -> Value {
        serde_json::from_str(&text(&bowline(&["check", "-o", "json"], dir))).expect("JSON")
    };
    let (before, after) = (report(old.path()), report(new.path()));
    assert_eq!(before["resources"], after["resources"]);
    assert_eq!(after["problems"], json!([]));
    assert_refused(&bowline(&["restore", &file], new.path()), &["holds a store already", "empty directory"]);
}

#[tokio::test]
async fn what_cannot_be_done_is_one_sentence() {
    let dir = scratch();
    assert_refused(
        &bowline(&["check"], &dir.path().join("nowhere")),
        &["there is no store in", "--data-dir"],
    );
    let store = filled(dir.path()).await;
    for command in [&["check"][..], &["compact"], &["backup", "/nowhere/file"]] {
        assert_refused(&bowline(command, dir.path()), &["in use by another process (pid "]);
    }
    drop(store);
    assert_refused(
        &bowline(&["restore", "/nowhere/file"], dir.path()),
        &["read /nowhere/file: No such file"],
    );
    let etcd = ["--etcd-servers", "http://127.0.0.1:1"];
    for (command, instead) in [
        (&["compact"][..], "etcdctl defrag"),
        (&["backup", "/nowhere/file"], "etcdctl snapshot save"),
        (&["restore", "/nowhere/file"], "etcdutl snapshot restore"),
    ] {
        assert_refused(&bowline(&[command, &etcd].concat(), dir.path()), &[instead]);
    }

    std::fs::write(dir.path().join("store/format"), "99\n").expect("changed");
    assert_refused(&bowline(&["check"], dir.path()), &["written by a newer version (format \"99\""]);
}

#[tokio::test]
async fn damage_is_found() {
    let dir = scratch();
    drop(filled(dir.path()).await);
    let journal = dir.path().join("store/objects/0.jnl");
    let mut bytes = std::fs::read(&journal).expect("the journal");
    bytes[30] ^= 0xff;
    std::fs::write(&journal, bytes).expect("damaged");
    assert_refused(&bowline(&["check"], dir.path()), &["is damaged: journal", "bowline store restore"]);
}

/// The server dies while etcd has a write that it does not know the answer to: nobody is told that it happened, or that
/// it did not, and after a restart it is there, once.
#[test]
fn a_write_under_way_when_the_server_dies() {
    let (etcd, prefix) = (Etcd::shared(), "/dying-server");
    let mut server = ApiServer::ours(&etcd::flags(&[deaf_after("unanswered", etcd.port(0))], prefix));
    let witness = ApiServer::ours(&etcd.flags(1, prefix));
    let create = |server: &ApiServer, name: &str| {
        let mut command = server.kubectl();
        command.args(["create", "configmap", name]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("run kubectl")
    };
    let exists = |server: &ApiServer, name: &str| {
        let mut command = server.kubectl();
        let found = command.args(["get", "configmap", name, "-o", "name"]).output().expect("run kubectl");
        found.status.success()
    };
    let before = create(&server, "before").wait_with_output().expect("kubectl");
    assert!(before.status.success(), "{before:?}");

    let mut unanswered = create(&server, "unanswered");
    let patience = Instant::now() + PATIENCE;
    while !exists(&witness, "unanswered") {
        assert!(Instant::now() < patience, "the write does not reach etcd");
    }
    assert_eq!(unanswered.try_wait().expect("state of kubectl"), None, "nobody knows yet");
    server.kill();
    let unanswered = unanswered.wait_with_output().expect("kubectl");
    let told = String::from_utf8_lossy(&unanswered.stderr).into_owned();
    assert!(!unanswered.status.success() && text(&unanswered).is_empty(), "{unanswered:?}");
    // Go's words for a request without an answer; what a server says comes without them.
    assert!(told.contains("Post \"https://"), "{told}");

    server.restart(&etcd.flags(0, prefix));
    let again = create(&server, "unanswered").wait_with_output().expect("kubectl");
    assert!(String::from_utf8_lossy(&again.stderr).contains("already exists"), "{again:?}");
    assert!(exists(&server, "before"), "what was answered is there");
}

/// C5: the database takes missing files for a new store. The second start served an empty cluster.
#[tokio::test]
async fn lost_files_are_refused_until_the_loss_is_accepted() {
    for lost in ["store/objects/keyspaces/0/current", "store/objects/0.jnl", "store/objects"] {
        let dir = scratch();
        drop(filled(dir.path()).await);
        let path = dir.path().join(lost);
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.expect("lost");
        let missing = format!("{} is missing", lost.trim_start_matches("store/"));
        for _ in 0..2 {
            assert_refused(
                &bowline(&["check"], dir.path()),
                &[&missing, "bowline store restore", "bowline store accept-loss"],
            );
        }
        let accepted = bowline(&["accept-loss"], dir.path());
        assert!(accepted.status.success() && text(&accepted).contains(&missing), "{accepted:?}");
        assert!(bowline(&["check"], dir.path()).status.success());
        assert!(text(&bowline(&["accept-loss"], dir.path())).starts_with("nothing is lost: "));
    }
}

/// A look at a lost store must not make the empty one that the next start would serve.
#[tokio::test]
async fn looking_at_a_store_that_is_gone_changes_nothing() {
    let dir = scratch();
    drop(filled(dir.path()).await);
    let store = dir.path().join("store");
    std::fs::remove_dir_all(&store).expect("lost");
    std::fs::create_dir(&store).expect("an empty mount point");
    let backup = dir.path().join("backup").display().to_string();
    for command in [&["check"][..], &["compact"], &["backup", &backup]] {
        assert_refused(&bowline(command, dir.path()), &["holds no objects", "restore a backup"]);
        assert_eq!(std::fs::read_dir(&store).expect("readable").count(), 0, "{command:?}");
    }
}

/// Without its store a data directory would start as a new cluster, under the certificates of the old one.
#[test]
fn a_server_whose_store_is_gone_does_not_start() {
    let mut server = ApiServer::ours(&[]);
    server.kill();
    let data = server.scratch.path().to_owned();
    std::fs::remove_dir_all(data.join("store")).expect("lost");
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .args(["kube-apiserver", "--secure-port", "0", "--data-dir"])
            .arg(&data)
            .env("RUST_LOG", "off");
        command.output().expect("run bowline")
    };
    assert_refused(&start(), &["store` is missing", "bowline store restore", "bowline store accept-loss"]);
    assert!(!data.join("store").exists(), "nothing was made in its place");
    assert!(bowline(&["accept-loss"], &data).status.success());
    server.restart(&[]);
}

#[test]
fn a_data_directory_in_use_is_refused_and_not_changed() {
    let server = ApiServer::ours(&["--memory".to_owned()]);
    let kubeconfig = std::fs::read(&server.kubeconfig).expect("the kubeconfig");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["kube-apiserver", "--memory", "--secure-port", "0", "--data-dir"]);
    let second = command.arg(server.scratch.path()).env("RUST_LOG", "off").output().expect("run bowline");
    assert_refused(&second, &["data directory ", "is in use by another process (pid ", "stop it first"]);
    assert_eq!(std::fs::read(&server.kubeconfig).expect("the kubeconfig"), kubeconfig);
}
