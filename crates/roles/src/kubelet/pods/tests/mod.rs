//! Decisions about one pod.

mod details;
mod environment;
mod fields;
mod health;
mod security;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Pod, build};
use jiff::Timestamp;
use serde_json::json;

use super::decide::decide;
use super::model::{
    Action, Attempt, Config, Exit, Observed, PodVolumes, SIGKILL, SIGTERM, State, Step, VolumeAt, Why,
};
use super::spec::Objects;

const UID: &str = "uid";

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(change: impl FnOnce(&mut Pod)) -> Pod {
    let mut pod = build::pod("p").shell("run").mount("data", "/data").build();
    pod.metadata.uid = Some(UID.into());
    pod.spec.as_mut().unwrap().node_name = Some("node-1".into());
    change(&mut pod);
    pod
}

fn policy(policy: &str) -> impl FnOnce(&mut Pod) {
    move |pod| pod.spec.as_mut().unwrap().restart_policy = Some(policy.into())
}

fn ready() -> PodVolumes {
    let at = VolumeAt { path: "/volume".into(), block: false, read_only: false };
    PodVolumes::Ready([("data".to_owned(), at)].into())
}

fn seen(pod: Pod) -> Observed {
    Observed {
        uid: UID.into(),
        now: at(1000),
        wall: wall(1000),
        known_since: at(1000),
        deleting_since: Some(at(1000)),
        active: None,
        config: Arc::new(Config { drain_grace: Duration::from_secs(5), ..Config::default() }),
        pod: Some(Arc::new(pod)),
        attempts: BTreeMap::new(),
        crashes: BTreeMap::new(),
        volumes: ready(),
        rejected: None,
        objects: Objects::default(),
        problem_since: None,
        told: None,
        left: false,
        inside: true,
        evicting: false,
        directory: true,
    }
}

fn running(number: u32) -> Attempt {
    let state = State::Running { pid: 1, started_at: wall(900) };
    Attempt::new(number, state, at(900))
}

fn ended(number: u32, code: i32, finished: u32) -> Attempt {
    let exit = Exit {
        code,
        signal: None,
        finished_at: wall(finished.into()),
        error: None,
        oom_killed: false,
        message: None,
    };
    let state = State::Exited { started_at: wall(900), exit };
    Attempt { state, ended_at: Some(at(finished.into())), ..running(number) }
}

impl Observed {
    fn with(mut self, container: &str, attempts: Vec<Attempt>) -> Self {
        self.attempts.insert(container.into(), attempts);
        self
    }
    fn crashed(mut self, times: u32) -> Self {
        self.crashes.insert("main".into(), times);
        self
    }
}

fn deleting(pod: &mut Pod) {
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(wall(1030)));
    pod.metadata.deletion_grace_period_seconds = Some(30);
}

/// The decision in short: what it does, without the details.
fn short(step: &Step) -> String {
    match step {
        Step::Do(Action::Start { container, number, .. }) => format!("start {container}/{number}"),
        Step::Do(Action::PatchStatus(patch)) => {
            format!("status {}", patch["status"]["phase"].as_str().unwrap())
        }
        Step::Do(Action::Signal { number, signal, .. }) => format!("signal {number} {signal}"),
        Step::Do(Action::RemoveLogs { container, before }) => format!("remove logs {container}/<{before}"),
        Step::Do(Action::Remove { container, number }) => format!("remove {container}/{number}"),
        Step::Do(action) => format!("{action:?}"),
        Step::Wait(why) => format!("wait {why:?}"),
        Step::Fail(why) => format!("fail {why:?}"),
        Step::Done => "done".into(),
    }
}

#[test]
fn a_pod_lives() {
    let mut outside = seen(pod(|_| ()));
    outside.inside = false;
    let mut unmounted = seen(pod(|_| ()));
    unmounted.volumes = PodVolumes::Waiting { unmounted: vec!["data".into()], problems: vec![] };
    let image = |image: &str| {
        let image = image.to_owned();
        pod(move |p| p.spec.as_mut().unwrap().containers[0].image = Some(image))
    };
    let table = [
        ("enters first", outside, "Enter"),
        ("volumes before containers", unmounted, "status Pending"),
        ("starts", seen(pod(|_| ())), "start main/0"),
        ("runs", seen(pod(|_| ())).with("main", vec![running(0)]), "status Running"),
        ("never: done", seen(pod(|_| ())).with("main", vec![ended(0, 0, 950)]), "status Succeeded"),
        ("never: failed", seen(pod(|_| ())).with("main", vec![ended(0, 1, 950)]), "status Failed"),
        (
            "on failure: done",
            seen(pod(policy("OnFailure"))).with("main", vec![ended(0, 0, 950)]),
            "status Succeeded",
        ),
        (
            "on failure: again at once",
            seen(pod(policy("OnFailure"))).with("main", vec![ended(0, 1, 1000)]).crashed(1),
            "start main/1",
        ),
        (
            "always: again even after success",
            seen(pod(policy("Always"))).with("main", vec![ended(0, 0, 1000)]).crashed(1),
            "start main/1",
        ),
        (
            "the second time after ten seconds",
            seen(pod(policy("Always"))).with("main", vec![ended(1, 0, 995)]).crashed(2),
            "status Running",
        ),
        (
            "which are over",
            seen(pod(policy("Always"))).with("main", vec![ended(1, 0, 990)]).crashed(2),
            "start main/2",
        ),
        ("another image", seen(image("nginx")), "status Pending"),
    ];
    for (name, seen, expected) in table {
        assert_eq!(short(&decide(&seen)), expected, "{name}");
    }
}

#[test]
fn init_containers_run_one_after_the_other() {
    let two = pod(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        let named = |name: &str| bowline_api::Container { name: name.into(), ..spec.containers[0].clone() };
        spec.init_containers = Some(vec![named("one"), named("two")]);
    });
    let table = [
        ("first", seen(two.clone()), "start one/0"),
        ("running", seen(two.clone()).with("one", vec![running(0)]), "status Pending"),
        ("second", seen(two.clone()).with("one", vec![ended(0, 0, 950)]), "start two/0"),
        (
            "then the others",
            seen(two.clone()).with("one", vec![ended(0, 0, 950)]).with("two", vec![ended(0, 0, 950)]),
            "start main/0",
        ),
        ("failed for good", seen(two).with("one", vec![ended(0, 1, 950)]), "status Failed"),
    ];
    for (name, seen, expected) in table {
        assert_eq!(short(&decide(&seen)), expected, "{name}");
    }
}

#[test]
fn a_pod_ends() {
    let signalled = |seconds| Attempt { term_at: Some(at(seconds)), ..running(0) };
    let killed = Attempt { killed: true, ..signalled(1000) };
    let over = |change: fn(&mut Observed)| {
        let mut seen = seen(pod(deleting));
        seen.inside = false;
        change(&mut seen);
        seen
    };
    let mut late = seen(pod(deleting)).with("main", vec![signalled(1000)]);
    late.now = at(1030);
    let table = [
        ("asked", seen(pod(deleting)).with("main", vec![running(0)]), format!("signal 0 {SIGTERM}")),
        (
            "given its grace period",
            seen(pod(deleting)).with("main", vec![signalled(1000)]),
            format!("wait {:?}", Why::Grace(at(1030))),
        ),
        ("killed", late, format!("signal 0 {SIGKILL}")),
        ("dying", seen(pod(deleting)).with("main", vec![killed]), "wait Exiting".into()),
        (
            "its end is written",
            seen(pod(deleting)).with("main", vec![ended(0, 143, 1000)]),
            "status Failed".into(),
        ),
        ("unmounting", over(|s| s.left = true), "wait Unmounting".into()),
        (
            "records",
            over(|s| drop(s.attempts.insert("main".into(), vec![ended(0, 0, 9)]))),
            "remove main/0".into(),
        ),
        ("directory", over(|_| ()), "CleanDirectory".into()),
        ("object", over(|s| s.directory = false), "Delete".into()),
    ];
    for (name, seen, expected) in table {
        assert_eq!(short(&decide(&seen)), expected, "{name}");
    }
}

#[test]
fn a_pod_that_is_gone_from_the_api_leaves_nothing() {
    let mut seen = seen(pod(|_| ())).with("main", vec![running(0)]);
    seen.pod = None;
    assert_eq!(short(&decide(&seen)), format!("signal 0 {SIGTERM}"));
    seen.attempts.insert("main".into(), vec![ended(0, 137, 1000)]);
    assert_eq!(short(&decide(&seen)), "Leave");
    seen.inside = false;
    seen.left = true;
    assert_eq!(short(&decide(&seen)), "wait Unmounting");
    seen.left = false;
    assert_eq!(short(&decide(&seen)), "remove main/0");
    seen.attempts.clear();
    assert_eq!(short(&decide(&seen)), "CleanDirectory");
    seen.directory = false;
    assert_eq!(short(&decide(&seen)), "Forget");
}

#[test]
fn an_orderly_stop_writes_no_status_and_forgets_what_it_ended() {
    let mut seen = seen(pod(|_| ())).with("main", vec![running(0)]);
    seen.evicting = true;
    let written = Action::Evict { container: "main".into(), number: 0 };
    assert_eq!(decide(&seen), Step::Do(written), "before it is done");
    seen.attempts.insert("main".into(), vec![Attempt { evicted: true, ..running(0) }]);
    assert_eq!(short(&decide(&seen)), format!("signal 0 {SIGTERM}"));
    seen.attempts.insert("main".into(), vec![Attempt { evicted: true, ..ended(0, 143, 1000) }]);
    seen.attempts.insert("slow".into(), vec![Attempt { evicted: true, ..running(0) }]);
    assert_eq!(short(&decide(&seen)), "remove main/0", "whoever else still runs");
    seen.attempts.clear();
    assert_eq!(short(&decide(&seen)), "Leave");
    seen.inside = false;
    assert_eq!(short(&decide(&seen)), "done");
}

/// The node agent was killed while it stopped: its successor knows whose doing the end of a container was.
#[test]
fn what_an_earlier_process_ended_runs_again() {
    let ours = |attempt: Attempt| Attempt { evicted: true, ..attempt };
    let table = [
        ("ended by us", vec![ours(ended(0, 143, 950))], "remove main/0"),
        ("ended by itself", vec![ended(0, 143, 950)], "status Failed"),
        ("about to end", vec![ours(running(0))], "signal 0 15"),
        ("not meant", vec![running(0)], "status Running"),
        ("forgotten", vec![], "start main/0"),
    ];
    for (name, attempts, expected) in table {
        let mut seen = seen(pod(policy("Never"))).with("main", attempts);
        seen.attempts.retain(|_, attempts| !attempts.is_empty());
        assert_eq!(short(&decide(&seen)), expected, "{name}");
    }
}

/// Volumes in memory go with an orderly stop, and what init containers had put there: they run again.
#[test]
fn init_containers_run_again_after_an_orderly_stop() {
    let status = json!({"phase": "Running",
        "initContainerStatuses": [{
            "name": "one", "image": "host", "imageID": "host", "ready": true, "restartCount": 0,
            "containerID": "bowline://uid/one/0",
            "state": {"terminated": {"exitCode": 0, "finishedAt": "1970-01-01T00:15:50Z"}},
        }],
        "containerStatuses": [{
            "name": "main", "image": "host", "imageID": "host", "ready": true, "restartCount": 0,
            "containerID": "bowline://uid/main/0", "state": {"running": {}},
        }],
    });
    let object = pod(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        let one = bowline_api::Container { name: "one".into(), ..spec.containers[0].clone() };
        spec.init_containers = Some(vec![one]);
        pod.status = Some(serde_json::from_value(status).unwrap());
    });
    let mut seen = seen(object).with("one", vec![ended(0, 0, 950)]);
    seen.evicting = true;
    assert_eq!(short(&decide(&seen)), "remove one/0", "before its volumes go");
    seen.attempts.clear();
    assert_eq!(short(&decide(&seen)), "Leave");
    seen.evicting = false;
    assert_eq!(short(&decide(&seen)), "start one/1");
    seen.attempts.insert("one".into(), vec![ended(1, 0, 990)]);
    assert_eq!(short(&decide(&seen)), "start main/1");
}

/// After a power cut the records are there, and what init containers had put into memory is not: they run again, all of
/// them and in their order, unless the pod is over or a container of it has run since.
#[test]
fn init_containers_run_again_after_the_machine_was_restarted() {
    let object = |restart: &str| {
        pod(|pod| {
            let spec = pod.spec.as_mut().unwrap();
            let named =
                |name: &str| bowline_api::Container { name: name.into(), ..spec.containers[0].clone() };
            spec.init_containers = Some(vec![named("one"), named("two")]);
            spec.restart_policy = Some(restart.into());
        })
    };
    let earlier = |attempt: Attempt| Attempt { earlier_boot: true, ..attempt };
    let cut = |restart: &str| {
        let seen = seen(object(restart)).with("one", vec![earlier(ended(0, 0, 950))]);
        seen.with("two", vec![earlier(ended(0, 0, 960))]).with("main", vec![earlier(ended(0, 137, 990))])
    };
    let main = |code| vec![earlier(ended(0, code, 990))];
    let table = [
        ("cut", cut("Always"), "start one/1"),
        ("cut, on failure", cut("OnFailure"), "start one/1"),
        (
            "the first runs again",
            cut("Always").with("one", vec![earlier(ended(0, 0, 950)), running(1)]),
            "status Pending",
        ),
        ("the first has run again", cut("Always").with("one", vec![ended(1, 0, 995)]), "start two/1"),
        (
            "both have",
            cut("Always").with("one", vec![ended(1, 0, 995)]).with("two", vec![ended(1, 0, 996)]),
            "start main/1",
        ),
        ("cut before it ran", cut("Always").with("main", vec![]), "start one/1"),
        ("the second was cut", cut("Always").with("two", vec![earlier(ended(0, 137, 960))]), "start one/1"),
        ("it has run since", cut("Always").with("main", vec![ended(1, 1, 990)]), "start main/2"),
        (
            "nothing was cut",
            cut("Always").with("one", vec![ended(0, 0, 950)]).with("two", vec![ended(0, 0, 960)]),
            "start main/1",
        ),
        ("all work is done", cut("OnFailure").with("main", main(0)), "status Succeeded"),
        ("never again", cut("Never"), "status Failed"),
        ("never again, cut before it ran", cut("Never").with("main", vec![]), "start one/1"),
    ];
    for (name, seen, expected) in table {
        assert_eq!(short(&decide(&seen)), expected, "{name}");
    }
}

/// One effect each: what earlier runs wrote, then the record of the one that was followed.
#[test]
fn a_run_that_was_followed_leaves_its_own_logs_only() {
    let mut seen = seen(pod(policy("Always"))).with("main", vec![ended(1, 1, 990), running(2)]).crashed(1);
    settle_status(&mut seen);
    assert_eq!(short(&decide(&seen)), "remove logs main/<1");
    seen.attempts.get_mut("main").unwrap()[0].logs_removed = true;
    assert_eq!(short(&decide(&seen)), "remove main/1");
    seen.attempts.get_mut("main").unwrap().remove(0);
    assert_eq!(short(&decide(&seen)), "done");
}

/// The API still shows attempt 4 as running, and there is no record of it: the next attempt is 5.
#[test]
fn an_attempt_is_never_made_twice() {
    let status = json!({"phase": "Running", "containerStatuses": [{
        "name": "main", "image": "host", "imageID": "host", "ready": true, "restartCount": 4,
        "containerID": "bowline://uid/main/4", "state": {"running": {}},
    }]});
    let known = pod(|pod| pod.status = Some(serde_json::from_value(status).unwrap()));
    assert_eq!(short(&decide(&seen(known.clone()))), "start main/5");
    assert_eq!(short(&decide(&seen(known).with("main", vec![running(6)]))), "status Running");
}

#[test]
fn a_volume_that_cannot_be_worked_out_is_reported_after_a_while() {
    let mut seen = seen(pod(|_| ()));
    let problem = ("data".to_owned(), "error processing PVC default/data: PVC is not bound".to_owned());
    seen.volumes = PodVolumes::Waiting { unmounted: vec![], problems: vec![problem] };
    seen.problem_since = Some(at(995));
    settle_status(&mut seen);
    assert_eq!(decide(&seen), Step::Wait(Why::VolumeProblem(at(1005))));
    seen.now = at(1005);
    let text = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: error processing PVC default/data: PVC is not bound";
    assert_eq!(decide(&seen), Step::Do(Action::Report(text.into())));
}

/// Writes the status that is asked for, as the API would keep it.
fn settle_status(seen: &mut Observed) {
    if let Step::Do(Action::PatchStatus(patch)) = decide(seen) {
        let mut pod = (**seen.pod.as_ref().unwrap()).clone();
        pod.status = Some(serde_json::from_value(patch["status"].clone()).unwrap());
        seen.pod = Some(Arc::new(pod));
    }
}

#[test]
fn a_status_that_is_written_is_not_written_again() {
    for attempts in [vec![], vec![running(0)], vec![ended(0, 1, 990)], vec![ended(0, 1, 990), running(1)]] {
        let mut seen = seen(pod(policy("Always"))).with("main", attempts).crashed(3);
        if seen.attempts["main"].is_empty() {
            seen.attempts.clear();
            seen.volumes = PodVolumes::Waiting { unmounted: vec!["data".into()], problems: vec![] };
        }
        settle_status(&mut seen);
        assert!(!short(&decide(&seen)).starts_with("status"), "{}", short(&decide(&seen)));
    }
}

/// Nothing starts, and the status says why.
fn refused_with(mut seen: Observed, reason: &str, message: &str) {
    let Step::Do(Action::PatchStatus(patch)) = decide(&seen) else {
        panic!("{message}: {}", short(&decide(&seen)))
    };
    let waiting = &patch["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!((&waiting["reason"], &waiting["message"]), (&json!(reason), &json!(message)));
    let refused = super::status::newly_refused(seen.pod.as_ref().unwrap(), &patch);
    assert!(!refused.is_empty(), "no event about {message}");
    settle_status(&mut seen);
    assert!(matches!(decide(&seen), Step::Wait(Why::Refused(_))), "{}", short(&decide(&seen)));
}
