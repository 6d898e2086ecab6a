//! Programs of other people use client-go: informers, leader election, server-side apply, protobuf, pages
//! (tests/peers/client) against our API server alone, on each kind of store.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use support::apiserver::ApiServer;
use support::etcd::{Etcd, HASTY};
use support::peers::peer;
use support::store::Store;

/// Fewer means that the program changed under us.
const TESTS_MIN: usize = 16;
/// A hang is a failure too.
const TIMEOUT: &str = "-test.timeout=5m";

/// How informers learn what there is.
#[derive(Clone, Copy)]
enum Lists {
    /// As streams, which is client-go's default.
    Streaming,
    /// A list, then a watch from its version on, as older clients do.
    Plain,
}

mod memory {
    use super::*;

    #[test]
    fn with_streaming_lists() {
        judge(&ApiServer::ours(&Store::Memory.flags()), Lists::Streaming);
    }

    #[test]
    fn with_plain_lists() {
        judge(&ApiServer::ours(&Store::Memory.flags()), Lists::Plain);
    }
}

mod file {
    use super::*;

    #[test]
    fn with_streaming_lists() {
        judge(&ApiServer::ours(&Store::File.flags()), Lists::Streaming);
    }

    #[test]
    fn with_plain_lists() {
        judge(&ApiServer::ours(&Store::File.flags()), Lists::Plain);
    }
}

mod etcd {
    use super::*;

    #[test]
    fn with_streaming_lists() {
        judge(&ApiServer::ours(&Store::Etcd.flags()), Lists::Streaming);
    }

    #[test]
    fn with_plain_lists() {
        judge(&ApiServer::ours(&Store::Etcd.flags()), Lists::Plain);
    }

    /// The member that leads, and that the server talks to, dies in the middle of the run.
    #[test]
    fn while_a_member_dies() {
        let etcd = Etcd::start(HASTY);
        let leader = etcd.leader();
        let server = ApiServer::ours(&etcd.flags(leader, "/registry"));
        let errors = server.scratch.path().join("errors");
        let mut command = program(&server, Lists::Streaming);
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&errors).expect("a file"));
        let mut run = command.spawn().expect("run the tests in Go");
        let mut lines = BufReader::new(run.stdout.take().expect("its output"));
        let mut said = String::new();
        // A test that deletes nothing: nobody could say who did it if the answer were lost.
        while !said.contains("=== RUN   TestResync\n") {
            assert_ne!(lines.read_line(&mut said).expect("its output"), 0, "it ended early:\n{said}");
        }
        etcd.kill(leader);
        lines.read_to_string(&mut said).expect("its output");
        run.wait().expect("the end of the tests in Go");
        assert_passed(&said, &std::fs::read_to_string(errors).expect("its errors"));
    }

    /// What is written to one server reaches an informer at another.
    #[test]
    fn with_two_servers() {
        let etcd = Etcd::shared();
        let [writer, reader] = [0, 1].map(|member| ApiServer::ours(&etcd.flags(member, "/two-servers")));
        let mut command = program(&writer, Lists::Streaming);
        command.args(["-test.run", "^TestInformers$"]).env("READER_KUBECONFIG", &reader.kubeconfig);
        let output = command.output().expect("run the test in Go");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("--- PASS: TestInformers"), "{said}");
    }
}

/// The program itself: upstream's server passes all of it.
#[test]
#[ignore = "`make record` runs it"]
fn upstream() {
    judge(&ApiServer::upstream(&[]), Lists::Streaming);
    judge(&ApiServer::upstream(&[]), Lists::Plain);
}

fn judge(server: &ApiServer, lists: Lists) {
    let output = program(server, lists).output().expect("run the tests in Go");
    assert_passed(&String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr));
}

fn program(server: &ApiServer, lists: Lists) -> Command {
    let streaming = match lists {
        Lists::Streaming => "true",
        Lists::Plain => "false",
    };
    let mut command = Command::new(peer("client-tests"));
    command.args(["-test.v", TIMEOUT]);
    command.env("KUBECONFIG", &server.kubeconfig).env("KUBE_FEATURE_WatchListClient", streaming);
    command
}

fn assert_passed(said: &str, errors: &str) {
    let wrong = complaints(said);
    assert!(wrong.is_empty(), "{}\n{said}\n{errors}", wrong.join("\n"));
}

/// What is wrong with a run, from the words of Go's test runner.
fn complaints(said: &str) -> Vec<String> {
    let ended = |how: &str| -> Vec<&str> {
        let lines = said.lines().filter_map(|line| line.strip_prefix("--- ")?.strip_prefix(how));
        lines.filter_map(|rest| rest.split(' ').next()).collect()
    };
    let (passed, failed, skipped) = (ended("PASS: "), ended("FAIL: "), ended("SKIP: "));
    let begun = said.lines().filter(|line| line.starts_with("=== RUN ")).count();
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(failed.iter().map(|name| format!("{name} fails")));
    wrong.extend(skipped.iter().map(|name| format!("{name} is skipped")));
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
    let table = [
        ("all passed", run(&[]), ""),
        ("one failed", run(&[("FAIL", "TestA")]), "TestA fails"),
        ("one skipped", run(&[("SKIP", "TestA")]), "TestA is skipped"),
        ("one never ended", run(&[]) + "=== RUN   TestZ\n", "17 tests began, 16 passed"),
        ("nothing ran", String::new(), "0 tests began"),
    ];
    for (name, said, expected) in table {
        let wrong = complaints(&said).join("\n");
        assert_eq!(wrong.is_empty(), expected.is_empty(), "{name}: {wrong}");
        assert!(wrong.contains(expected), "{name}: {wrong}");
    }
}
