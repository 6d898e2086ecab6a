use std::sync::{Arc, Mutex};

use bowline_api::ConfigMap;
use http::request::Parts;
use serde_json::{Value, json};

use super::settings::{labels, sanitize};
use super::*;
use crate::effect::{Effects, Fate};
use crate::fake_api::{self, Answer, json_answer, status};
use crate::informers::Informers;

const BOUND: Duration = Duration::from_secs(3600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Upstream's bound: twenty seconds more than the lease lasts.
#[tokio::test(start_paused = true)]
async fn leaders_are_unhealthy_when_the_renewal_is_late() {
    let uptime = bowline_host::fake::host(1).0.uptime;
    let leadership = Leadership::new("lock".into(), seconds(15), uptime.clone());
    assert!(leadership.healthy(), "a standby");
    assert!(leadership.extend(Sent::now(&*uptime), seconds(10)));
    tokio::time::advance(seconds(35)).await;
    assert!(leadership.healthy());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!leadership.healthy());
}

#[test]
fn what_to_do_about_a_lease() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let old: Timestamp = "2025-06-01T00:00:00Z".parse().unwrap();
    let record = |holder: &str, transitions, acquired, renewed| Record {
        holder: holder.into(),
        seconds: 15,
        transitions,
        acquired: Some(acquired),
        renewed: Some(renewed),
    };
    // Another machine's clock: far ahead or far behind, it does not matter.
    let ahead: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let (other, future) = (record("b", 3, old, old), record("b", 3, ahead, ahead));
    let ours = record("a", 3, old, old);
    let free = record("", 3, old, old);
    let table = [
        ("absent", None, 0, false, Step::Create(record("a", 0, now, now))),
        ("deleted while we lead", None, 99, true, Step::Create(record("a", 0, now, now))),
        ("renewed by another", Some(&other), 0, false, Step::Wait(seconds(15))),
        ("old by its own clock, but seen to change", Some(&other), 14, false, Step::Wait(seconds(1))),
        (
            "in the future by its own clock, not renewed",
            Some(&future),
            15,
            false,
            Step::Update(record("a", 4, now, now)),
        ),
        ("not renewed", Some(&other), 15, false, Step::Update(record("a", 4, now, now))),
        ("released", Some(&free), 0, false, Step::Update(record("a", 4, now, now))),
        ("released by hand while we lead", Some(&free), 0, true, Step::Update(record("a", 4, now, now))),
        ("ours", Some(&ours), 5, true, Step::Update(record("a", 3, old, now))),
        ("ours from before a restart", Some(&ours), 99, false, Step::Update(record("a", 3, old, now))),
        ("stolen", Some(&other), 0, true, Step::Lost),
        ("stolen and abandoned", Some(&other), 99, true, Step::Lost),
    ];
    for (name, record, unchanged, leading, step) in table {
        let observed =
            Observed { identity: "a", seconds: 15, record, unchanged: seconds(unchanged), leading };
        assert_eq!(decide(&observed, now), step, "{name}");
    }
    let handed =
        Record { holder: String::new(), seconds: 1, transitions: 3, acquired: Some(now), renewed: Some(now) };
    assert_eq!(released(&ours, now), handed);
}

#[test]
fn names_labels_and_timing_as_upstream_has_them() {
    let names = [
        ("external-attacher-leader-hostpath.csi.k8s.io", "external-attacher-leader-hostpath-csi-k8s-io"),
        ("driver/with_odd.", "driver-with-odd-X"),
        ("plain", "plain"),
    ];
    for (name, sane) in names {
        assert_eq!(sanitize(name), sane);
    }
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    assert_eq!(labels("a:b,c:d"), Ok(pairs(&[("a", "b"), ("c", "d")])));
    assert_eq!(labels(""), Ok(pairs(&[])));
    for wrong in ["a", "a:b:c", ":b"] {
        assert!(labels(wrong).is_err(), "{wrong}");
    }
    assert_eq!(Timing::new(seconds(15), seconds(10), seconds(5)), Ok(Timing::SIDECARS));
    assert_eq!(Timing::new(seconds(15), seconds(10), seconds(2)), Ok(Timing::CORE));
    for (lease, renew, retry) in [(10, 10, 5), (15, 6, 5), (15, 10, 0)] {
        assert!(Timing::new(seconds(lease), seconds(renew), seconds(retry)).is_err());
    }
    assert!(Timing::new(Duration::from_millis(15_900), Duration::from_millis(15_500), seconds(5)).is_err());
}

/// How the API server treats a candidate's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fault {
    #[default]
    None,
    /// Requests are refused at once, as by a closed port.
    Refused,
    /// Nothing is answered and nothing lands.
    Silent,
    /// Writes land, but their answers are lost.
    LostAnswers,
}

/// One lease object with optimistic locking.
#[derive(Clone, Default)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    version: Arc<Mutex<u64>>,
}

impl Server {
    fn answer(&self, parts: &Parts, body: &Value, fault: Fault) -> Option<Answer> {
        match fault {
            Fault::Refused => return Some(status(503, "ServiceUnavailable", "connection refused")),
            Fault::Silent => return None,
            Fault::None | Fault::LostAnswers => {}
        }
        if parts.uri.path().ends_with("/configmaps") {
            return Some(json_answer(201, body));
        }
        assert!(parts.uri.path().starts_with("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"));
        let current = self.lease.lock().unwrap().clone();
        let answer = match (parts.method.as_str(), current) {
            ("GET", Some(lease)) => return Some(json_answer(200, &lease)),
            ("GET" | "PUT", None) => return Some(status(404, "NotFound", "not found")),
            ("POST", None) => self.put(body.clone()),
            ("PUT", Some(lease))
                if lease["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"] =>
            {
                self.put(body.clone())
            }
            _ => return Some(status(409, "Conflict", "the object has been modified")),
        };
        (fault == Fault::None).then(|| json_answer(200, &answer))
    }

    fn put(&self, mut lease: Value) -> Value {
        let mut version = self.version.lock().unwrap();
        *version += 1;
        lease["metadata"]["resourceVersion"] = json!(version.to_string());
        *self.lease.lock().unwrap() = Some(lease.clone());
        lease
    }

    /// A write by another machine, with times of its own.
    fn foreign(&self, holder: &str, renewed: Timestamp) {
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 7, "acquireTime": MicroTime(renewed), "renewTime": MicroTime(renewed)});
        self.put(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lock", "namespace": "kube-system", "labels": {"made": "by-hand"}}, "spec": spec}));
    }

    fn spec(&self) -> Value {
        self.lease.lock().unwrap().clone().unwrap()["spec"].clone()
    }

    fn holder(&self) -> String {
        self.spec()["holderIdentity"].as_str().unwrap().to_owned()
    }

    fn candidate(&self, identity: &str, seed: u64) -> Candidate {
        self.candidate_on(identity, bowline_host::fake::host(seed).0)
    }

    fn candidate_on(&self, identity: &str, host: Host) -> Candidate {
        self.candidate_behind(identity, host, None)
    }

    fn candidate_behind(&self, identity: &str, host: Host, behind: Option<Leadership>) -> Candidate {
        let fault = Arc::new(Mutex::new(Fault::None));
        let (server, faults) = (self.clone(), fault.clone());
        let (client, _) =
            fake_api::client(move |parts, body| server.answer(parts, body, *faults.lock().unwrap()));
        let settings = Settings {
            namespace: "kube-system".into(),
            name: "lock".into(),
            identity: identity.into(),
            labels: [("role".to_owned(), identity.to_owned())].into(),
            timing: Timing::SIDECARS,
            release_on_exit: true,
        };
        let (mut lease, leadership) = Lease::new(client.clone(), host.clone(), settings);
        lease.behind = behind;
        let stop = CancellationToken::new();
        let task = tokio::spawn(lease.run(stop.clone()));
        let informers = Informers::new(client.clone(), host.random.clone(), CancellationToken::new());
        let effects = Effects::new("test", client, host, crate::Journal::default(), informers);
        let effects = effects.led_by(leadership.clone());
        Candidate { fault, leadership, effects, stop, task }
    }
}

struct Candidate {
    fault: Arc<Mutex<Fault>>,
    leadership: Leadership,
    effects: Effects,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Ended>,
}

impl Candidate {
    fn fault(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    async fn acquired(&self) {
        assert!(tokio::time::timeout(BOUND, self.leadership.acquired()).await.expect("the lease"));
    }

    async fn lost(&self) {
        tokio::time::timeout(BOUND, self.leadership.lost()).await.expect("the loss of the lease");
        assert!(!self.leadership.held());
    }

    async fn ended(self) -> Ended {
        tokio::time::timeout(BOUND, self.task).await.expect("the end").unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_candidates_one_leads_and_its_death_is_followed_within_the_lease() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    let two = server.candidate("two", 2);
    sleep(seconds(300)).await;
    assert!(one.leadership.held() && !two.leadership.held());
    let spec = server.spec();
    assert_eq!((&spec["leaseTransitions"], &spec["leaseDurationSeconds"]), (&json!(0), &json!(15)));
    assert_eq!(spec["acquireTime"], "2026-01-01T00:00:00.000000Z");
    assert_ne!(spec["acquireTime"], spec["renewTime"]);
    assert_eq!(one.leadership.slow_paths(), 0);
    // kill -9: nothing more is written.
    one.task.abort();
    let start = Instant::now();
    two.acquired().await;
    assert!(start.elapsed() >= seconds(9) && start.elapsed() <= seconds(17), "{:?}", start.elapsed());
    assert_eq!((server.holder().as_str(), &server.spec()["leaseTransitions"]), ("two", &json!(1)));
    let labels = server.lease.lock().unwrap().clone().unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"role": "two"}));
}

/// One process holds a lease of its own and, only while it does, those that others wait for.
#[tokio::test(start_paused = true)]
async fn a_lease_behind_another_is_taken_only_while_that_one_is_held() {
    let (first, second) = (Server::default(), Server::default());
    let host = |seed| bowline_host::fake::host(seed).0;
    let (one, two) = (first.candidate_on("one", host(1)), first.candidate_on("two", host(2)));
    let behind = |candidate: &Candidate, seed| {
        second.candidate_behind("behind", host(seed), Some(candidate.leadership.clone()))
    };
    one.acquired().await;
    // An upstream program holds what is behind: this process waits for it like any candidate.
    second.foreign("upstream", "2026-01-01T00:00:00Z".parse().unwrap());
    let (led, standby) = (behind(&one, 3), behind(&two, 4));
    let start = Instant::now();
    led.acquired().await;
    assert!(start.elapsed() >= seconds(15), "{:?}", start.elapsed());
    sleep(seconds(300)).await;
    assert!(led.leadership.held() && !standby.leadership.held());
    // kill -9 of the process: the successor has seen both records stand, so the second costs no further lease.
    one.task.abort();
    led.task.abort();
    let start = Instant::now();
    two.acquired().await;
    standby.acquired().await;
    assert!(start.elapsed() <= seconds(28), "{:?}", start.elapsed());
    // The first is lost for good: what is behind it is never asked for again.
    let third = second.candidate_behind("never", host(5), Some(led.leadership.clone()));
    assert_eq!(third.ended().await, Ended::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_ends_leading_for_good() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    server.foreign("thief", "2026-01-01T00:00:00Z".parse().unwrap());
    one.lost().await;
    sleep(seconds(60)).await;
    assert!(!one.leadership.held());
    assert_eq!(server.holder(), "thief");
    assert_eq!(one.ended().await, Ended::Lost);
}

/// Neither a refusing nor a silent API server lets two candidates hold the lease at any time.
#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_stops_before_another_may_begin() {
    for fault in [Fault::Refused, Fault::Silent] {
        let server = Server::default();
        let one = server.candidate("one", 1);
        one.acquired().await;
        let two = server.candidate("two", 2);
        sleep(seconds(60)).await;
        one.fault(fault);
        let start = Instant::now();
        one.lost().await;
        let lost = start.elapsed();
        assert!(lost <= seconds(10), "{fault:?}: {lost:?}");
        assert!(!two.leadership.held(), "{fault:?}");
        two.acquired().await;
        assert!(start.elapsed() >= lost + seconds(4), "{fault:?}: {:?} after {lost:?}", start.elapsed());
        assert_eq!(one.ended().await, Ended::Lost);
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_and_lost_answers_are_survived() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    for fault in [Fault::Refused, Fault::Silent, Fault::LostAnswers] {
        sleep(seconds(20)).await;
        one.fault(fault);
        sleep(seconds(4)).await;
        one.fault(Fault::None);
        sleep(seconds(20)).await;
        assert!(one.leadership.held(), "{fault:?}");
    }
    assert_eq!(server.spec()["leaseTransitions"], 0);
}

/// The lease is written but the answer is lost: the next read shows that it is ours.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_acquiring_write_is_found_by_the_next_look() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.fault(Fault::LostAnswers);
    sleep(seconds(8)).await;
    one.fault(Fault::None);
    one.acquired().await;
    assert_eq!((server.holder().as_str(), &server.spec()["leaseTransitions"]), ("one", &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_clock_an_hour_off_neither_frees_nor_keeps_a_lease() {
    for hour in ["2025-12-31T23:00:00Z", "2026-01-01T01:00:00Z"] {
        let other: Timestamp = hour.parse().unwrap();
        let server = Server::default();
        server.foreign("other", other);
        let one = server.candidate("one", 1);
        for round in 1..20 {
            sleep(seconds(5)).await;
            server.foreign("other", other + jiff::SignedDuration::from_secs(5 * round));
            assert!(!one.leadership.held(), "{hour}: it is renewed");
        }
        let start = Instant::now();
        one.acquired().await;
        let took = start.elapsed();
        assert!(took >= seconds(15) && took <= seconds(30), "{hour}: {took:?}");
        assert_eq!(server.spec()["leaseTransitions"], 8, "{hour}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    let two = server.candidate("two", 2);
    sleep(seconds(60)).await;
    one.stop.cancel();
    one.lost().await;
    assert_eq!(one.ended().await, Ended::Stopped);
    assert_eq!((server.holder().as_str(), &server.spec()["leaseDurationSeconds"]), ("", &json!(1)));
    let start = Instant::now();
    two.acquired().await;
    assert!(start.elapsed() <= seconds(11), "one look later: {:?}", start.elapsed());
}

/// People edit leases, and the answer to the last renewal may be lost: the version that is known is then too old.
#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over_a_lease_that_was_edited() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    let mut edited = server.lease.lock().unwrap().clone().unwrap();
    edited["metadata"]["labels"] = json!({"edited": "by-hand"});
    server.put(edited);
    one.stop.cancel();
    assert_eq!(one.ended().await, Ended::Stopped);
    assert_eq!(server.holder(), "");

    let two = server.candidate("two", 2);
    two.acquired().await;
    server.foreign("thief", "2026-01-01T00:00:00Z".parse().unwrap());
    two.stop.cancel();
    assert_eq!(two.ended().await, Ended::Stopped);
    assert_eq!(server.holder(), "thief", "what another candidate holds is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_leaves_the_lease_alone() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    let two = server.candidate("two", 2);
    sleep(seconds(60)).await;
    two.stop.cancel();
    assert!(!two.leadership.acquired().await);
    assert_eq!(two.ended().await, Ended::Stopped);
    assert_eq!(server.holder(), "one");
}

#[tokio::test(start_paused = true)]
async fn a_lease_deleted_by_hand_is_made_again() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    *server.lease.lock().unwrap() = None;
    sleep(seconds(6)).await;
    assert!(one.leadership.held());
    assert_eq!(server.holder(), "one");
    assert_eq!(one.leadership.slow_paths(), 1);
}

/// The task that renews need not run for that: the clock alone decides.
#[tokio::test(start_paused = true)]
async fn no_effect_begins_without_the_lease() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    let object = || ConfigMap {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("a".into()),
            namespace: Some("default".into()),
            ..Default::default()
        },
        ..Default::default()
    };
    let error = one.effects.create(&object()).await.unwrap_err();
    assert!(error.lease_lost() && error.fate == Fate::Refused, "not acquired yet: {error}");
    one.acquired().await;
    one.effects.create(&object()).await.unwrap();
    // Time passes without a chance for any task to run.
    tokio::time::advance(seconds(11)).await;
    let error = one.effects.create(&object()).await.unwrap_err();
    assert!(error.lease_lost(), "{error}");
    assert!(error.message.contains("`lock`"), "{error}");
    assert_eq!(one.ended().await, Ended::Lost, "a renewal after the deadline does not bring it back");
}

/// An effect that waits for its answer ends when the lease is lost: it must not be sent again by a process that does not
/// lead. It may have landed.
#[tokio::test(start_paused = true)]
async fn an_effect_under_way_ends_with_the_lease() {
    let server = Server::default();
    let one = server.candidate("one", 1);
    one.acquired().await;
    let dropped = Arc::new(());
    let held = dropped.clone();
    let effects = one.effects.clone();
    let under_way = tokio::spawn(async move {
        let never = async move {
            let _held = held;
            std::future::pending::<Result<(), crate::EffectError>>().await
        };
        effects.run("create", "secret default/a", never).await
    });
    sleep(seconds(1)).await;
    assert!(!under_way.is_finished());
    server.foreign("thief", "2026-01-01T00:00:00Z".parse().unwrap());
    one.lost().await;
    let error = tokio::time::timeout(seconds(1), under_way).await.expect("its end").unwrap().unwrap_err();
    assert!(error.lease_lost() && error.fate == Fate::Unknown, "{error}");
    assert_eq!(Arc::strong_count(&dropped), 1, "the request is dropped");
}

/// A clock that also counts while the machine sleeps, and the one that timers follow, which does not.
struct Suspended {
    born: Instant,
    slept: Mutex<Duration>,
}

impl bowline_host::Uptime for Suspended {
    fn uptime(&self) -> Duration {
        self.born.elapsed() + *self.slept.lock().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_past_the_deadline_wakes_up_without_the_lease() {
    let server = Server::default();
    let clock = Arc::new(Suspended { born: Instant::now(), slept: Mutex::default() });
    let host = Host { uptime: clock.clone(), ..bowline_host::fake::host(1).0 };
    let one = server.candidate_on("one", host);
    one.acquired().await;
    *clock.slept.lock().unwrap() += seconds(3600);
    assert!(!one.leadership.held(), "no timer has fired, but the lease is over");
    let error = one.effects.run("x", "y", async { Ok::<_, crate::EffectError>(()) }).await.unwrap_err();
    assert!(error.lease_lost() && error.fate == Fate::Refused, "{error}");
    assert_eq!(one.ended().await, Ended::Lost, "a renewal does not bring it back");
}
