//! A standby becomes the leader.

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

#[tokio::test(start_paused = true)]
async fn a_new_leader_decides_on_what_the_store_has() {
    let (client, _) = fake_api::client(lagging);
    let (host, _) = fake::host(1);
    let stop = CancellationToken::new();
    let settings = Settings {
        namespace: "kube-system".into(),
        name: "lock".into(),
        identity: "a".into(),
        labels: Default::default(),
        timing: Timing::CORE,
        release_on_exit: false,
    };
    let (lease, leadership) = Lease::new(client.clone(), host.clone(), settings);
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
