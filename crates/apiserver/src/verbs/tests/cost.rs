//! What the record of who set which field costs beside the rest of a write.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kinds::pod::PodRules;
use crate::registry::{Kind, Part, Registry};
use crate::testing::{TestClock, pod};
use crate::verbs::{Actor, ownership};
use bowline_host::Clock;

const WRITES: u32 = 30;
const ROUNDS: usize = 10;

fn whole_pod() -> Value {
    let mut object = pod("p");
    object["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
    object["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    object["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}, {"containerPort": 443}]);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    object["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    object
}

/// The quickest of several rounds: whoever else wants the processor only makes them slower.
fn timed(mut work: impl FnMut()) -> Duration {
    let mut round = || {
        let started = Instant::now();
        (0..WRITES).for_each(|_| work());
        started.elapsed()
    };
    (0..ROUNDS).map(|_| round()).min().expect("there are rounds")
}

fn track(
    kind: &dyn Kind,
    subresource: &str,
    objects: (&Value, &Value),
    sent: Option<Value>,
) -> Option<Value> {
    ownership::track(kind, subresource, &Actor::server(), objects, sent, TestClock.now())
}

/// The bound is generous because machines are busy: it is there to notice when the cost changes in kind.
#[test]
fn recording_is_the_smaller_part_of_a_write() {
    let mut registry = Registry::new();
    registry.add::<PodRules>();
    let kind = registry.kind("", "v1", "pods").expect("registered").as_ref();
    let now = TestClock.now();

    let body = whole_pod();
    let decoded = kind.decode(&body).expect("a pod").object;
    let created = timed(|| {
        let object = kind.decode(&body).expect("a pod").object;
        let prepared = kind.prepare_create(object, now).expect("a pod");
        assert!(!serde_json::to_vec(&prepared.object).expect("JSON").is_empty());
    });
    let recorded = timed(|| assert!(track(kind, "", (&Value::Null, &decoded), None).is_some()));
    println!("{WRITES} creates: {created:?}, recording {recorded:?}");
    assert!(recorded < created / 2, "create: {recorded:?} beside {created:?}");

    let mut old = kind.prepare_create(decoded.clone(), now).expect("a pod").object;
    let record = track(kind, "", (&Value::Null, &decoded), None);
    ownership::attach(&mut old, record.clone());
    let text = serde_json::to_vec(&old).expect("JSON");
    let mut new = old.clone();
    new["status"] =
        json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
    let updated = timed(|| {
        let old: Value = serde_json::from_slice(&text).expect("JSON");
        let object = kind.decode(&new).expect("a pod").object;
        let prepared = kind.prepare_update(object, &old, Part::Status, now).expect("a pod");
        assert!(!serde_json::to_vec(&prepared.object).expect("JSON").is_empty());
    });
    let mut bare = new.clone();
    ownership::detach(&mut bare);
    let recorded = timed(|| assert!(track(kind, "status", (&old, &bare), record.clone()).is_some()));
    println!("{WRITES} status updates: {updated:?}, recording {recorded:?}");
    assert!(recorded < updated / 2, "update: {recorded:?} beside {updated:?}");
}
