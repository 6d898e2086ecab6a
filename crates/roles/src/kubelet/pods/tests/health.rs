//! Probes, hooks and deadlines.

use serde_json::{Value, json};

use super::super::model::{Hook, HookState, Outcome, ProbeKind};
use super::super::probes::ProbeState;
use super::*;
use crate::kubelet::Reported;

fn probing(change: Value) -> Pod {
    pod(|pod| {
        let main = &mut pod.spec.as_mut().unwrap().containers[0];
        let mut whole = serde_json::to_value(&*main).unwrap();
        whole.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        *main = serde_json::from_value(whole).unwrap();
        policy("Always")(pod);
    })
}

fn failure() -> Outcome {
    Outcome::Failure("no".into())
}

/// Answers of a probe, one second apart, and what counts afterwards.
#[test]
fn answers_count_when_they_were_given_often_enough() {
    let probe =
        serde_json::from_value(json!({"successThreshold": 2, "failureThreshold": 3, "periodSeconds": 5}))
            .unwrap();
    let (yes, no, none) = (Outcome::Success, failure(), Outcome::Unknown("?".into()));
    let table = [
        (vec![&yes], None),
        (vec![&yes, &yes], Some(true)),
        (vec![&yes, &no, &yes], None),
        (vec![&yes, &yes, &no, &no], Some(true)),
        (vec![&yes, &yes, &no, &no, &no], Some(false)),
        (vec![&no, &none, &no, &none, &no], Some(false)),
        (vec![&no, &no, &yes, &no], None),
    ];
    for (answers, expected) in table {
        let mut state = ProbeState::default();
        for answer in &answers {
            state.answered(&probe, answer, at(7));
        }
        assert_eq!((state.settled, state.next_at), (expected, Some(at(12))), "{answers:?}");
    }
}

fn settled(kind: ProbeKind, good: bool) -> impl FnOnce(&mut Attempt) {
    move |attempt| {
        let probe = serde_json::from_value(json!({"failureThreshold": 1})).unwrap();
        let outcome = if good { Outcome::Success } else { failure() };
        attempt.probes.entry(kind).or_default().answered(&probe, &outcome, at(1000));
    }
}

fn seen_with(pod: Pod, change: impl FnOnce(&mut Attempt)) -> Observed {
    let mut attempt = running(0);
    change(&mut attempt);
    let mut seen = seen(pod).with("main", vec![attempt]);
    settle_status(&mut seen);
    seen
}

fn main_status(seen: &Observed) -> (bool, bool) {
    let status = seen.pod.as_ref().unwrap().status.as_ref().unwrap();
    let main = &status.container_statuses.as_ref().unwrap()[0];
    (main.started == Some(true), main.ready)
}

#[test]
fn probes_are_asked_in_time() {
    let all = || {
        probing(json!({
            "startupProbe": {"tcpSocket": {"port": 1}},
            "readinessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 105},
            "livenessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 200},
        }))
    };
    let ask = |kind| Step::Do(Action::Probe { container: "main".into(), number: 0, kind });
    let first = seen_with(all(), |_| ());
    assert_eq!((decide(&first), main_status(&first)), (ask(ProbeKind::Startup), (false, false)));
    let asked =
        seen_with(all(), |attempt| attempt.probes.entry(ProbeKind::Startup).or_default().in_flight = true);
    assert_eq!(short(&decide(&asked)), "done", "its answer wakes the pod");
    let again = seen_with(all(), settled(ProbeKind::Startup, true));
    assert_eq!(main_status(&again), (true, false));
    assert_eq!(decide(&again), Step::Wait(Why::Scheduled(at(1005))), "readiness is the next");
    let mut due = again;
    due.now = at(1005);
    assert_eq!(decide(&due), ask(ProbeKind::Readiness));
}

#[test]
fn a_container_that_fails_its_probe_is_ended_and_started_again() {
    for (kind, field) in [(ProbeKind::Liveness, "livenessProbe"), (ProbeKind::Startup, "startupProbe")] {
        let probe = json!({"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 7});
        let mut seen = seen_with(probing(json!({field: probe})), settled(kind, false));
        let text = format!("Container main failed {} probe, will be restarted", kind.word());
        let signal = Action::Signal { container: "main".into(), number: 0, signal: SIGTERM, text };
        assert_eq!(decide(&seen), Step::Do(signal));
        let attempt = &mut seen.attempts.get_mut("main").unwrap()[0];
        (attempt.term_at, attempt.stopping_since) = (Some(at(1000)), Some(at(1000)));
        settle_status(&mut seen);
        assert_eq!(decide(&seen), Step::Wait(Why::Scheduled(at(1007))), "its own grace");
        seen.now = at(1007);
        assert_eq!(short(&decide(&seen)), format!("signal 0 {SIGKILL}"));
        let over = super::seen(probing(json!({}))).with("main", vec![ended(0, 137, 1000)]).crashed(1);
        assert_eq!(short(&decide(&over)), "start main/1");
    }
    let failed = seen_with(
        probing(json!({"readinessProbe": {"tcpSocket": {"port": 1}}})),
        settled(ProbeKind::Readiness, false),
    );
    assert_eq!(main_status(&failed), (true, false));
    assert!(matches!(decide(&failed), Step::Wait(Why::Scheduled(_))), "only out of service");
}

/// What an earlier process found out counts until the probe was asked again.
#[test]
fn a_restart_of_the_kubelet_does_not_take_containers_out_of_service() {
    let pod = || {
        probing(
            json!({"readinessProbe": {"tcpSocket": {"port": 1}}, "startupProbe": {"tcpSocket": {"port": 1}},
        "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}),
        )
    };
    let mut before = seen_with(pod(), |attempt| {
        settled(ProbeKind::Startup, true)(attempt);
        settled(ProbeKind::Readiness, true)(attempt);
        attempt.post_start = HookState::Done;
    });
    assert_eq!(main_status(&before), (true, true));
    before.attempts.insert("main".into(), vec![running(0)]);
    let asked = Action::Probe { container: "main".into(), number: 0, kind: ProbeKind::Readiness };
    assert_eq!(decide(&before), Step::Do(asked), "no change of the status, no hook");
}

#[test]
fn hooks_after_the_start() {
    let hooked = || probing(json!({"lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}));
    let first = seen(hooked()).with("main", vec![running(0)]);
    let run = Action::RunHook {
        container: "main".into(),
        number: 0,
        hook: Hook::PostStart,
        deadline: None,
        text: None,
    };
    assert_eq!(decide(&first), Step::Do(run));
    let runs = seen_with(hooked(), |attempt| attempt.post_start = HookState::Running);
    assert_eq!(main_status(&runs), (false, false));
    assert_eq!(decide(&runs), Step::Wait(Why::PostStart("main".into())));
    let done = seen_with(hooked(), |attempt| attempt.post_start = HookState::Done);
    assert_eq!((main_status(&done), short(&decide(&done))), ((true, true), "done".into()));
    let failed = seen_with(hooked(), |attempt| attempt.post_start = HookState::Failed);
    assert_eq!(short(&decide(&failed)), format!("signal 0 {SIGTERM}"));
}

#[test]
fn hooks_before_the_end() {
    let hooked = |change: fn(&mut Attempt)| {
        let mut pod =
            probing(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 60}}, "stopSignal": "SIGUSR1"}}));
        deleting(&mut pod);
        let mut attempt = running(0);
        change(&mut attempt);
        seen(pod).with("main", vec![attempt])
    };
    let hook = Action::RunHook {
        container: "main".into(),
        number: 0,
        hook: Hook::PreStop,
        deadline: Some(at(1030)),
        text: Some("Stopping container main".into()),
    };
    assert_eq!(decide(&hooked(|_| ())), Step::Do(hook));
    let runs = hooked(|attempt| attempt.pre_stop = HookState::Running);
    assert_eq!(decide(&runs), Step::Wait(Why::Grace(at(1030))));
    let late = Observed { now: at(1030), ..runs };
    assert_eq!(short(&decide(&late)), "signal 0 10", "its own signal, when the grace is over");
    let mut asked =
        hooked(|attempt| (attempt.pre_stop, attempt.term_at) = (HookState::Failed, Some(at(1029))));
    asked.now = at(1030);
    assert_eq!(decide(&asked), Step::Wait(Why::Grace(at(1031))), "two seconds at least");
    asked.now = at(1031);
    assert_eq!(short(&decide(&asked)), format!("signal 0 {SIGKILL}"));
    let mut none_left = hooked(|_| ());
    none_left.now = at(1031);
    assert_eq!(short(&decide(&none_left)), "signal 0 10", "no time for a hook");
}

#[test]
fn a_pod_that_is_active_for_too_long_fails() {
    let mut limited = pod(|pod| {
        policy("Always")(pod);
        pod.spec.as_mut().unwrap().active_deadline_seconds = Some(100);
    });
    limited.status = Some(serde_json::from_value(json!({"startTime": "1970-01-01T00:15:10Z"})).unwrap());
    let mut seen = seen(limited).with("main", vec![running(0)]);
    seen.active = Some((at(950), at(40)));
    settle_status(&mut seen);
    assert_eq!(decide(&seen), Step::Wait(Why::Scheduled(at(1010))));
    seen.now = at(1010);
    assert_eq!(short(&decide(&seen)), format!("signal 0 {SIGTERM}"));
    let stopping = Attempt { term_at: Some(at(1010)), ..running(0) };
    seen.attempts.insert("main".into(), vec![stopping]);
    assert_eq!(decide(&seen), Step::Wait(Why::Grace(at(1040))));
    seen.attempts.insert("main".into(), vec![ended(0, 143, 1010)]);
    let Step::Do(Action::PatchStatus(patch)) = decide(&seen) else { panic!() };
    let status = &patch["status"];
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
    assert_eq!(status["message"], "Pod was active on the node longer than the specified deadline");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    settle_status(&mut seen);
    assert_eq!(short(&decide(&seen)), "Leave");
}

#[test]
fn readiness_gates_keep_a_pod_from_being_ready() {
    let gated = |status: Value| {
        let mut pod = pod(|pod| {
            let gate =
                k8s_openapi::api::core::v1::PodReadinessGate { condition_type: "example.com/up".into() };
            pod.spec.as_mut().unwrap().readiness_gates = Some(vec![gate]);
        });
        pod.status = Some(serde_json::from_value(status).unwrap());
        let Step::Do(Action::PatchStatus(patch)) = decide(&seen(pod).with("main", vec![running(0)])) else {
            panic!()
        };
        let all = patch["status"]["conditions"].as_array().unwrap().clone();
        let ready = all.iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(all.iter().find(|c| c["type"] == "ContainersReady").unwrap()["status"], "True");
        (
            ready["status"].as_str().unwrap().to_owned(),
            ready["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let absent = "corresponding condition of pod readiness gate \"example.com/up\" does not exist.";
    assert_eq!(gated(json!({})), ("False".into(), absent.into()));
    let with = |status: &str| json!({"conditions": [{"type": "example.com/up", "status": status}]});
    let no = "the status of pod readiness gate \"example.com/up\" is not \"True\", but False";
    assert_eq!(gated(with("False")), ("False".into(), no.into()));
    assert_eq!(gated(with("True")), ("True".into(), String::new()));
}

/// A good answer during its preStop hook does not spare it: the hook has already begun to shut it down.
#[test]
fn a_container_that_failed_its_probe_is_not_asked_again() {
    let pod = probing(json!({
        "livenessProbe": {"tcpSocket": {"port": 1}}, "readinessProbe": {"tcpSocket": {"port": 1}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 60}}},
    }));
    let mut seen = seen_with(pod, |attempt| {
        settled(ProbeKind::Liveness, false)(attempt);
        (attempt.pre_stop, attempt.stopping_since) = (HookState::Running, Some(at(1000)));
    });
    seen.now = at(1020);
    assert_eq!(decide(&seen), Step::Wait(Why::Scheduled(at(1030))), "until its grace is over");
}

/// Those who send it work want to know whether it still takes any.
#[test]
fn a_pod_that_ends_is_asked_whether_it_is_ready_and_nothing_else() {
    let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 5});
    let mut ending = probing(json!({"livenessProbe": probe, "readinessProbe": probe}));
    deleting(&mut ending);
    let mut seen = seen(ending).with("main", vec![Attempt { term_at: Some(at(1000)), ..running(0) }]);
    settle_status(&mut seen);
    let kind = ProbeKind::Readiness;
    assert_eq!(decide(&seen), Step::Do(Action::Probe { container: "main".into(), number: 0, kind }));
    settled(kind, false)(&mut seen.attempts.get_mut("main").unwrap()[0]);
    settle_status(&mut seen);
    let Step::Wait(why) = decide(&seen) else { panic!("{}", short(&decide(&seen))) };
    assert_eq!(why.reason(), &Why::Grace(at(1030)));
    assert!(why.until().is_some_and(|next| next < at(1030)), "asked again before: {why}");
}

#[test]
fn a_problem_with_volumes_is_told_again() {
    let mut seen = seen(pod(|_| ()));
    let problems = vec![("data".to_owned(), "no claim".to_owned())];
    seen.volumes = PodVolumes::Waiting { unmounted: Vec::new(), problems };
    seen.problem_since = Some(at(990));
    settle_status(&mut seen);
    let Step::Do(Action::Report(text)) = decide(&seen) else { panic!("{}", short(&decide(&seen))) };
    seen.told = Some(Reported::after(None, text.clone(), at(1000)));
    let Step::Wait(why) = decide(&seen) else { panic!("{}", short(&decide(&seen))) };
    assert_eq!(why.until(), Some(at(1010)));
    seen.now = at(1010);
    assert_eq!(decide(&seen), Step::Do(Action::Report(text)));
}
