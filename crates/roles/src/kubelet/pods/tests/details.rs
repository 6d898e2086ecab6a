//! The status of a pod, the container that comes out of it, and the promises as properties.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::runtime::{Runtime, parts};
use super::super::spec;
use super::*;

#[test]
fn conditions_and_states_as_upstream_has_them() {
    let back_off = seen(pod(policy("Always"))).with("main", vec![ended(2, 7, 990)]).crashed(3);
    let Step::Do(Action::PatchStatus(patch)) = decide(&back_off) else { panic!() };
    let main = &patch["status"]["containerStatuses"][0];
    assert_eq!(main["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(
        main["state"]["waiting"]["message"],
        "back-off 20s restarting failed container=main pod=p_default(uid)"
    );
    assert_eq!(main["lastState"]["terminated"]["exitCode"], 7);
    assert_eq!((&main["restartCount"], &main["ready"]), (&json!(2), &json!(false)));
    let condition = |type_: &str| -> Value {
        let all = patch["status"]["conditions"].as_array().unwrap();
        all.iter().find(|c| c["type"] == type_).unwrap().clone()
    };
    assert_eq!(condition("Ready")["message"], "containers with unready status: [main]");
    assert_eq!(condition("PodScheduled")["status"], "True");
}

#[test]
fn why_a_container_ended() {
    let table = [
        (0, None, "Completed"),
        (137, Some("oom"), "OOMKilled"),
        (7, None, "Error"),
        (128, None, "Error"),
        (128, Some("exec \"nosuch\": no such file or directory"), "StartError"),
        (137, Some("container shim was killed"), "ContainerStatusUnknown"),
    ];
    for (code, error, reason) in table {
        let mut attempt = ended(0, code, 990);
        if let State::Exited { exit, .. } = &mut attempt.state {
            exit.oom_killed = error == Some("oom");
            exit.error = error.filter(|error| *error != "oom").map(Into::into);
        }
        let Step::Do(Action::PatchStatus(patch)) = decide(&seen(pod(|_| ())).with("main", vec![attempt]))
        else {
            panic!("no status for {code}")
        };
        let ended = &patch["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&ended["reason"], &ended["exitCode"]), (&json!(reason), &json!(code)), "{error:?}");
    }
}

#[test]
fn variables_are_expanded_as_upstream_does() {
    let mut env = spec::Environment::default();
    env.set("A", "1".into()).unwrap();
    let table =
        [("$(A)", "1"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("x$(A)y$", "x1y$"), ("$", "$"), ("$(A", "$(A")];
    for (text, expected) in table {
        assert_eq!(spec::expand(text, &env).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn a_container_is_started_with_all_it_asks_for() {
    let asking = pod(|pod| {
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        let env = json!([
            {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "WHERE", "value": "$(WHO) on $(NODE)"},
        ]);
        container.env = Some(serde_json::from_value(env).unwrap());
        container.args = Some(vec!["$(WHO)".into()]);
    });
    let Step::Do(Action::Start { spec, .. }) = decide(&seen(asking)) else { panic!() };
    assert_eq!(spec.id, "uid/main/0");
    assert_eq!(spec.argv, ["/bin/sh", "-c", "run", "p"]);
    assert!(spec.env.contains(&("WHERE".into(), "p on $(NODE)".into())), "{:?}", spec.env);
    assert_eq!(
        (spec.mounts[0].source.to_str(), spec.mounts[0].target.to_str()),
        (Some("/volume"), Some("/data"))
    );
}

#[test]
fn crashes_are_counted_until_a_long_run() {
    let runtime = Runtime::default();
    let exit = |second| Exit {
        code: 1,
        signal: None,
        finished_at: wall(second),
        error: None,
        oom_killed: false,
        message: None,
    };
    for (number, started, finished, crashes) in
        [(0, 0, 5, 1), (1, 5, 10, 2), (2, 10, 700, 1), (3, 700, 701, 2)]
    {
        // The wall clock was set meanwhile: how long it ran is counted otherwise.
        let state = State::Running { pid: 1, started_at: wall(9000) };
        runtime.started(UID, "main", number, state, (at(started), wall(9000)));
        runtime.exited(UID, "main", number, exit(0), at(finished));
        assert_eq!(runtime.get(UID).unwrap().crashes["main"], crashes, "attempt {number}");
    }
    assert_eq!(parts("uid/main/3"), Some(("uid", "main", 3)));
    assert_eq!(parts("something else"), None);
}

fn any_attempt() -> impl Strategy<Value = Attempt> {
    prop_oneof![
        Just(running(0)),
        Just(Attempt { term_at: Some(at(999)), ..running(0) }),
        (0i32..2).prop_map(|code| ended(0, code, 990)),
    ]
}

prop_compose! {
    fn any_seen()(
        attempt in prop::option::of(any_attempt()),
        exists in any::<bool>(),
        dying in any::<bool>(),
        mounted in any::<bool>(),
        left in any::<bool>(),
        inside in any::<bool>(),
        evicting in any::<bool>(),
        directory in any::<bool>(),
        rule in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
    ) -> Observed {
        let object = pod(|pod| {
            policy(rule)(pod);
            if dying {
                deleting(pod);
            }
        });
        let mut seen = seen(object);
        seen.attempts = attempt.map(|a| ("main".to_owned(), vec![a])).into_iter().collect();
        if !exists {
            seen.pod = None;
        }
        if !mounted {
            seen.volumes = PodVolumes::Waiting { unmounted: vec!["data".into()], problems: vec![] };
        }
        Observed { left, inside, evicting, directory, ..seen }
    }
}

proptest! {
    /// NODE-3: nothing that runs is started again, and nothing starts on a volume that may be taken away.
    #[test]
    fn containers_start_once_and_only_on_mounted_volumes(seen in any_seen()) {
        let runs = seen.attempts.values().flatten().any(Attempt::running);
        match decide(&seen) {
            Step::Do(Action::Start { number, .. }) => {
                prop_assert!(!runs && seen.inside && !seen.evicting);
                prop_assert!(matches!(seen.volumes, PodVolumes::Ready(_)));
                prop_assert!(seen.attempts.values().flatten().all(|a| a.number < number));
            }
            Step::Do(Action::Leave) => prop_assert!(!runs, "left with a running container"),
            Step::Do(Action::CleanDirectory | Action::Delete | Action::Forget) => {
                prop_assert!(!runs && !seen.left && !seen.inside, "{seen:?}");
            }
            Step::Do(Action::Remove { .. } | Action::RemoveLogs { .. }) => prop_assert!(!runs),
            Step::Do(Action::Signal { .. }) => {
                let alive = seen.pod.as_ref().is_some_and(|p| p.metadata.deletion_timestamp.is_none());
                prop_assert!(!alive || seen.evicting, "signalled a pod that nobody wants to end");
            }
            _ => {}
        }
    }
}

#[test]
fn files_of_runs() {
    let cases =
        [("0.log", Some(0)), ("12.log.3", Some(12)), ("1.logs", None), ("log", None), ("x.log", None)];
    for (file, run) in cases {
        assert_eq!(spec::run_of_log(file), run, "{file}");
    }
    assert_eq!(spec::pod_of_logs("default_web_uid-1"), Some("uid-1"));
    assert_eq!(spec::pod_of_logs("lost+found"), None);
}

#[test]
fn the_end_of_a_log() {
    use super::super::last_lines::written;
    let log = b"t stdout F one\nt stderr P two \nt stderr F three\n";
    assert_eq!(written(log, true), "one\ntwo three\n");
    assert_eq!(written(log, false), "two three\n", "a line whose beginning was not read");
    let many: String = (0..100).map(|number| format!("t stdout F {number}\n")).collect();
    assert!(written(many.as_bytes(), true).starts_with("20\n"));
    let long = format!("t stdout F {}\n", "\u{fc}".repeat(3000));
    assert_eq!(written(long.as_bytes(), true).len(), 2047, "whole letters");
    assert_eq!(written(b"", true), "");
}
