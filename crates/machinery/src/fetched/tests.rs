//! An API server that hands out single objects, and followers that come and go.

use std::sync::atomic::{AtomicU64, Ordering};

use bowline_api::ConfigMap;
use bowline_host::fake;
use serde_json::json;

use super::*;
use crate::fake_api::{self, Seen, json_answer, status};
use crate::journal::Journal;

/// Bound since this version.
const BOUND: u64 = 10;

fn settled(map: &ConfigMap) -> bool {
    map.version() >= BOUND
}

/// The server has version `version` of every object; 0 for none.
fn world(version: &Arc<AtomicU64>) -> (Fetched<ConfigMap>, Seen, CancellationToken) {
    node(version, 1)
}

/// The same, as another node sees it.
fn node(version: &Arc<AtomicU64>, seed: u64) -> (Fetched<ConfigMap>, Seen, CancellationToken) {
    let now = version.clone();
    let (client, seen) = fake_api::client(move |parts, _| {
        let version = now.load(Ordering::SeqCst);
        let name = parts.uri.path().rsplit('/').next().unwrap();
        let metadata = json!({"name": name, "namespace": "ns", "resourceVersion": version.to_string()});
        Some(match version {
            0 => status(404, "NotFound", "none"),
            1 => status(403, "Forbidden", "no relationship found"),
            2 => status(500, "InternalError", "broken"),
            _ => json_answer(200, &json!({"metadata": metadata})),
        })
    });
    let stop = CancellationToken::new();
    let ports = Ports::new(client, fake::host(seed).0, Journal::default(), stop.clone());
    (Fetched::new(&ports, settled), seen, stop)
}

fn keys(names: &[&str]) -> BTreeSet<ObjectKey> {
    names.iter().map(|name| ObjectKey::new("ns", *name)).collect()
}

fn version(found: &Found<Arc<ConfigMap>>) -> Option<u64> {
    if let Found::Present(object) = found { Some(object.version()) } else { None }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_asked_for_soon_until_it_is_settled_and_rarely_afterwards() {
    let now = Arc::new(AtomicU64::new(0));
    let (fetched, seen, _stop) = world(&now);
    let key = ObjectKey::new("ns", "a");
    fetched.follow("pod", &keys(&["a"]));
    assert_eq!(fetched.get("pod", &key), Found::Unknown);
    fetched.answered("pod").await;
    assert_eq!(fetched.get("pod", &key), Found::Absent);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let early = seen.lock().unwrap().len();
    assert!((5..8).contains(&early), "each pause is twice as long: {early}");
    now.store(BOUND, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(version(&fetched.get("pod", &key)), Some(BOUND));
    let before = seen.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let rarely = seen.lock().unwrap().len() - before;
    assert!((5..=10).contains(&rarely), "{rarely} in ten minutes");
    fetched.follow("pod", &keys(&[]));
    assert_eq!((fetched.get("pod", &key), fetched.cache().get(&key)), (Found::Unknown, None));
    let last = seen.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(seen.lock().unwrap().len(), last);
}

/// The object of another follower may be gone, and another one have its name.
#[tokio::test(start_paused = true)]
async fn one_who_comes_later_sees_nothing_older_than_itself() {
    let now = Arc::new(AtomicU64::new(BOUND));
    let (fetched, _seen, _stop) = world(&now);
    let key = ObjectKey::new("ns", "a");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    fetched.on_change(move |follower| log.lock().unwrap().push(follower.to_owned()));
    fetched.follow("old", &keys(&["a"]));
    fetched.answered("old").await;
    now.store(BOUND + 1, Ordering::SeqCst);
    fetched.follow("new", &keys(&["a"]));
    assert_eq!(version(&fetched.get("old", &key)), Some(BOUND));
    assert_eq!(fetched.get("new", &key), Found::Unknown);
    fetched.answered("new").await;
    assert_eq!(version(&fetched.get("new", &key)), Some(BOUND + 1));
    fetched.follow("newest", &keys(&["a"]));
    fetched.answered("newest").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*heard.lock().unwrap(), ["old", "new", "old", "newest"], "and only those are told");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_seen_is_absent_and_what_cannot_be_read_is_unknown() {
    let now = Arc::new(AtomicU64::new(2));
    let (fetched, _seen, _stop) = world(&now);
    let key = ObjectKey::new("ns", "a");
    fetched.follow("pod", &keys(&["a"]));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fetched.get("pod", &key), Found::Unknown);
    now.store(1, Ordering::SeqCst);
    fetched.answered("pod").await;
    assert_eq!(fetched.get("pod", &key), Found::Absent);
    now.store(BOUND, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(version(&fetched.get("pod", &key)), Some(BOUND));
}

#[tokio::test(start_paused = true)]
async fn nodes_do_not_come_back_all_at_once_after_errors() {
    let tenth_question = async |seed| {
        let (fetched, seen, _stop) = node(&Arc::new(AtomicU64::new(2)), seed);
        let begun = tokio::time::Instant::now();
        fetched.follow("pod", &keys(&["a"]));
        while seen.lock().unwrap().len() < 10 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        begun.elapsed()
    };
    assert_ne!(tenth_question(1).await, tenth_question(2).await);
}

/// Read-your-writes: an answer that was on its way when the object was written says nothing about it.
#[tokio::test]
async fn an_object_that_was_written_meanwhile_is_not_taken_for_deleted() {
    let cache = Cache::<ConfigMap>::default();
    let key = ObjectKey::cluster("a");
    let object = |version: u64| {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".into());
        object.metadata.resource_version = Some(version.to_string());
        object
    };
    cache.note(object(3));
    assert!(!cache.fetched(&key, None, None), "asked before the write");
    assert!(!cache.fetched(&key, Some(object(2).into()), None));
    assert_eq!(cache.get(&key).unwrap().version(), 3);
    assert!(cache.fetched(&key, Some(object(4).into()), Some(3)));
    assert!(cache.fetched(&key, None, Some(4)));
    assert_eq!(cache.get(&key), None);
}
