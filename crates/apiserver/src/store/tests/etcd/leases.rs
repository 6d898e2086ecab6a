//! Events go away by themselves; etcd sees to that.

use std::sync::Arc;
use std::time::Duration;

use bowline_host::Clock;

use super::*;

struct Now;

impl Clock for Now {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_expire_together_and_every_server_hears_of_it() {
    let expiry = Expiry { ttl: Duration::from_secs(2), clock: Arc::new(Now) };
    let options = Options { expiry: Some(expiry), ..Options::default() };
    let (cluster, prefix) = (cluster::shared(), cluster::prefix());
    let store = cluster.store_at(0, &prefix, options.clone()).await;
    let other = cluster.store_at(1, &prefix, options).await;
    create(&store, "widget").await;
    let mut watcher = other.watch(&"events".into(), other.version()).unwrap();
    for n in 0..300 {
        let event = Write { resource: "events".into(), ..put(&format!("e{n}"), "1", Expect::Absent) };
        store.write(event).await.unwrap();
    }
    let mut deleted = Vec::new();
    while deleted.len() < 300 {
        let events = tokio::time::timeout(Duration::from_secs(30), watcher.next()).await;
        for event in events.expect("they expire within seconds").unwrap() {
            if event.kind == EventKind::Deleted {
                deleted.push(event.object.key.name.clone());
            }
        }
    }
    deleted.sort();
    deleted.dedup();
    assert_eq!(deleted.len(), 300, "each one once, although many share a version");
    store.fresh().await.unwrap();
    for store in [&store, &other] {
        assert!(store.page("events", None, None, None, 9).unwrap().objects.is_empty());
        assert_eq!(names(store), ["widget"], "nothing else expires");
    }
}
