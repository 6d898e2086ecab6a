//! A standby becomes the leader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::ConfigMap;
use bowline_host::fake;
use http::request::Parts;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::effect::EffectError;
use crate::fake_api::{self, Answer, json_answer, status, stream};
use crate::journal::Journal;
use crate::lease::{Lease, Settings, Timing};
use crate::ports::{Ports, RunError};
use crate::role::{Context, Role, Step, Watches, run};

/// Says how many ConfigMaps it saw when it was first asked to decide.
struct Reader {
    maps: Cache<ConfigMap>,
    saw: Arc<Mutex<Vec<usize>>>,
}

#[async_trait]
impl Role for Reader {
    const NAME: &'static str = "reader";
    const WORKERS: usize = 1;
    type Settings = Arc<Mutex<Vec<usize>>>;
    type Key = u32;
    type Observed = ();
    type Action = ();
    type Why = String;

    async fn start(context: Context<u32>, saw: Self::Settings) -> Result<Self, RunError> {
        context.queue.add(1);
        Ok(Self { maps: context.ports.informers.of(), saw })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.read(&self.maps);
    }
    async fn observe(&self, _: &u32) -> Result<Option<()>, EffectError> {
        self.saw.lock().unwrap().push(self.maps.list().len());
        Ok(None)
    }
    fn decide((): &()) -> Step<(), String> {
        Step::Done
    }
    async fn act(&self, (): (), (): ()) -> Result<(), EffectError> {
        Ok(())
    }
}

fn maps(version: u64, names: &[&str]) -> Answer {
    let map = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name, "resourceVersion": "5"}});
    let items: Vec<Value> = names.iter().map(map).collect();
    let metadata = json!({"resourceVersion": version.to_string()});
    json_answer(
        200,
        &json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items}),
    )
}

/// A server whose copy of ConfigMaps lags, and never catches up; the store has one more.
fn lagging(parts: &Parts, body: &Value) -> Option<Answer> {
    let query = parts.uri.query().unwrap_or_default();
    match (parts.method.as_str(), parts.uri.path()) {
        (_, path) if path.ends_with("/configmaps") && query.contains("watch=true") => {
            let (lines, answer) = stream();
            // It stays open.
            std::mem::forget(lines);
            Some(answer)
        }
        (_, path) if path.ends_with("/configmaps") && query.contains("resourceVersion=0") => {
            Some(maps(5, &["a"]))
        }
        (_, path) if path.ends_with("/configmaps") => Some(maps(9, &["a", "b"])),
        ("GET", _) => Some(status(404, "NotFound", "not found")),
        _ => {
            let mut lease = body.clone();
            lease["metadata"]["resourceVersion"] = json!("7");
            Some(json_answer(201, &lease))
        }
    }
}

fn settings() -> Settings {
    Settings {
        namespace: "kube-system".into(),
        name: "lock".into(),
        identity: "a".into(),
        labels: Default::default(),
        timing: Timing::CORE,
        release_on_exit: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_without_a_lease_decides_on_what_the_store_has() {
    let (client, _) = fake_api::client(lagging);
    let stop = CancellationToken::new();
    let ports = Ports::new(client, fake::host(1).0, Journal::default(), stop.clone());
    let saw = Arc::new(Mutex::new(Vec::new()));
    let role = tokio::spawn(run::<Reader>(ports, saw.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*saw.lock().unwrap(), [2], "a copy that lags would hide what exists");
    stop.cancel();
    role.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_asked_for_when_the_caches_are_complete() {
    let lists = Arc::new(AtomicBool::new(false));
    let allowed = lists.clone();
    let (client, seen) = fake_api::client(move |parts, body| {
        let lists = allowed.load(Ordering::SeqCst) || !parts.uri.path().ends_with("/configmaps");
        if lists { lagging(parts, body) } else { Some(status(403, "Forbidden", "not yet")) }
    });
    let asked = || seen.lock().unwrap().iter().any(|line| line.contains("/leases"));
    let (host, _) = fake::host(1);
    let stop = CancellationToken::new();
    let (lease, leadership) = Lease::new(client.clone(), host.clone(), settings());
    let ports = Ports::new(client, host, Journal::default(), stop.clone()).led_by(leadership.clone());
    tokio::spawn(lease.after_roles(ports.starts.clone()).run(stop.clone()));
    let saw = Arc::new(Mutex::new(Vec::new()));
    let role = tokio::spawn(run::<Reader>(ports, saw.clone()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!asked(), "a replica that cannot work would lead");
    lists.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(leadership.held());
    assert_eq!(*saw.lock().unwrap(), [2]);
    stop.cancel();
    role.await.unwrap().unwrap();
}

/// A role that reads nothing.
struct Idle;

#[async_trait]
impl Role for Idle {
    const NAME: &'static str = "idle";
    const WORKERS: usize = 1;
    type Settings = ();
    type Key = u32;
    type Observed = ();
    type Action = ();
    type Why = String;

    async fn start(_: Context<u32>, (): ()) -> Result<Self, RunError> {
        Ok(Self)
    }
    fn watch(&self, _: &mut Watches<Self>) {}
    async fn observe(&self, _: &u32) -> Result<Option<()>, EffectError> {
        Ok(None)
    }
    fn decide((): &()) -> Step<(), String> {
        Step::Done
    }
    async fn act(&self, (): (), (): ()) -> Result<(), EffectError> {
        Ok(())
    }
}

/// Goal: a role that cannot fill its caches keeps neither the others of its process from leading nor, where it is the only
/// one, another replica that can work.
#[tokio::test(start_paused = true)]
async fn the_lease_is_asked_for_when_a_role_can_work() {
    for (with_idle, leads) in [(true, true), (false, false)] {
        let (client, _) = fake_api::client(|parts, body| match parts.uri.path().ends_with("/configmaps") {
            true => Some(status(403, "Forbidden", "never")),
            false => lagging(parts, body),
        });
        let (host, _) = fake::host(1);
        let stop = CancellationToken::new();
        let (lease, leadership) = Lease::new(client.clone(), host.clone(), settings());
        let ports = Ports::new(client, host, Journal::default(), stop.clone()).led_by(leadership.clone());
        let candidacy = tokio::spawn(lease.after_roles(ports.starts.clone()).run(stop.clone()));
        let role = tokio::spawn(run::<Reader>(ports.clone(), Arc::default()));
        let _idle = with_idle.then(|| tokio::spawn(run::<Idle>(ports, ())));
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(!leadership.held(), "it waits for the caches first");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(leadership.held(), leads, "with a role that can work: {with_idle}");
        candidacy.abort();
        let ended = tokio::time::timeout(Duration::from_secs(5), role).await;
        let ended = ended.expect("a role that is still starting ends with the lease").unwrap();
        assert!(matches!(ended, Err(RunError::LeaseLost(_))), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_decides_on_what_the_store_has() {
    let (client, _) = fake_api::client(lagging);
    let (host, _) = fake::host(1);
    let stop = CancellationToken::new();
    let (lease, leadership) = Lease::new(client.clone(), host.clone(), settings());
    let ports = Ports::new(client, host, Journal::default(), stop.clone()).led_by(leadership);
    let saw = Arc::new(Mutex::new(Vec::new()));
    let standby = tokio::spawn(run::<Reader>(ports, saw.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(saw.lock().unwrap().is_empty(), "it does not lead yet");
    tokio::spawn(lease.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*saw.lock().unwrap(), [2], "the leader before it may have made what the copy lacks");
    stop.cancel();
    standby.await.unwrap().unwrap();
}
