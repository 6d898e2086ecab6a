//! Programs of other people use client-go: informers, leader election, server-side apply, protobuf, pages
//! (tests/peers/client) against our API server alone.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::process::Command;

use support::apiserver::ApiServer;
use support::peers::peer;

/// Tests in Go whose part of the server is still being built; one that passes may not stay here.
const NOT_YET: &[&str] = &[
    "TestServerSideApply",
    "TestApplyFromLiveObject",
    "TestProtobuf",
    "TestDiscovery",
    "TestScale",
    "TestPods",
    "TestTokens",
    "TestEvents",
];
/// Fewer means that the program changed under us.
const TESTS_MIN: usize = 16;
/// A hang is a failure too.
const TIMEOUT: &str = "-test.timeout=5m";

/// Lists as streams, which is client-go's default.
#[test]
fn with_streaming_lists() {
    judge(&ApiServer::ours(&["--memory"]), "true", NOT_YET);
}

/// A list, then a watch from its version on, as older clients do.
#[test]
fn with_plain_lists() {
    judge(&ApiServer::ours(&["--memory"]), "false", NOT_YET);
}

/// The program itself: upstream's server passes all of it.
#[test]
#[ignore = "`make record` runs it"]
fn upstream() {
    judge(&ApiServer::upstream(), "true", &[]);
    judge(&ApiServer::upstream(), "false", &[]);
}

fn judge(server: &ApiServer, streaming: &str, not_yet: &[&str]) {
    let output = Command::new(peer("CLIENT_TESTS", "client-tests"))
        .args(["-test.v", TIMEOUT])
        .env("KUBECONFIG", &server.kubeconfig)
        .env("KUBE_FEATURE_WatchListClient", streaming)
        .output()
        .expect("run the tests in Go");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let wrong = complaints(&said, not_yet);
    assert!(wrong.is_empty(), "{}\n{said}\n{errors}", wrong.join("\n"));
}

/// What is wrong with a run, from the words of Go's test runner.
fn complaints(said: &str, not_yet: &[&str]) -> Vec<String> {
    let ended = |how: &str| -> Vec<&str> {
        let lines = said.lines().filter_map(|line| line.strip_prefix("--- ")?.strip_prefix(how));
        lines.filter_map(|rest| rest.split(' ').next()).collect()
    };
    let (passed, failed, skipped) = (ended("PASS: "), ended("FAIL: "), ended("SKIP: "));
    let begun = said.lines().filter(|line| line.starts_with("=== RUN ")).count();
    let mut wrong: Vec<String> = Vec::new();
    let unexpected = failed.iter().filter(|name| !not_yet.contains(name));
    wrong.extend(unexpected.map(|name| format!("{name} fails")));
    wrong.extend(skipped.iter().map(|name| format!("{name} is skipped")));
    let stale = not_yet.iter().filter(|name| !failed.contains(name));
    wrong.extend(stale.map(|name| format!("{name} passes: take it out of the list")));
    if begun < TESTS_MIN || begun != passed.len() + failed.len() + skipped.len() {
        wrong.push(format!("{begun} tests began, {} passed", passed.len()));
    }
    wrong
}

#[test]
fn runs_judged() {
    let run = |ends: &[(&str, &str)]| {
        let fill = (ends.len()..TESTS_MIN).map(|n| ("PASS", format!("TestMore{n}")));
        let all = ends.iter().map(|(how, name)| (*how, (*name).to_owned())).chain(fill);
        all.map(|(how, name)| format!("=== RUN   {name}\n--- {how}: {name} (0.01s)\n")).collect::<String>()
    };
    let table: [(&str, String, &[&str], &str); 7] = [
        ("all passed", run(&[]), &[], ""),
        ("one failed", run(&[("FAIL", "TestA")]), &[], "TestA fails"),
        ("one may fail", run(&[("FAIL", "TestA")]), &["TestA"], ""),
        ("one that may fail passes", run(&[("PASS", "TestA")]), &["TestA"], "TestA passes"),
        ("one skipped", run(&[("SKIP", "TestA")]), &[], "TestA is skipped"),
        ("one never ended", run(&[]) + "=== RUN   TestZ\n", &[], "17 tests began, 16 passed"),
        ("nothing ran", String::new(), &[], "0 tests began"),
    ];
    for (name, said, not_yet, expected) in table {
        let wrong = complaints(&said, not_yet).join("\n");
        assert_eq!(wrong.is_empty(), expected.is_empty(), "{name}: {wrong}");
        assert!(wrong.contains(expected), "{name}: {wrong}");
    }
}
