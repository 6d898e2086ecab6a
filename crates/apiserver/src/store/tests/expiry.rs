//! Events go away by themselves, and only events.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bowline_host::Clock;
use jiff::Timestamp;

use super::*;
use crate::store::expiry::sweep;

/// Set by hand.
#[derive(Default)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

fn options(clock: &Arc<Hand>) -> Options {
    let expiry = Expiry { ttl: Duration::from_secs(3600), clock: clock.clone() };
    Options { expiry: Some(expiry), ..Options::default() }
}

fn event(name: &str, expect: Expect) -> Write {
    Write { resource: "events".into(), ..put(name, "1", expect) }
}

fn events(store: &Store) -> Vec<String> {
    let page = store.page("events", None, None, None, usize::MAX).unwrap();
    page.objects.iter().map(|object| object.key.name.clone()).collect()
}

async fn sweep_now(store: &Store) {
    sweep(store.inner.expiries.as_ref().unwrap(), store).await;
}

async fn lives(store: Store, clock: Arc<Hand>, reopen: impl Fn(Store) -> Store) {
    create(&store, "a-widget").await;
    store.write(event("a", Expect::Absent)).await.unwrap();
    let b = store.write(event("b", Expect::Absent)).await.unwrap();
    store.write(event("c", Expect::Absent)).await.unwrap();
    clock.0.store(1800, Ordering::SeqCst);
    store.write(event("b", Expect::Version(b.version))).await.unwrap();
    let c = store.get("events", &key("c")).unwrap();
    let gone = Write { change: Change::Delete, ..event("c", Expect::Version(c.version)) };
    store.write(gone).await.unwrap();
    let store = reopen(store);
    let mut watcher = store.watch(&"events".into(), store.version()).unwrap();

    clock.0.store(3599, Ordering::SeqCst);
    sweep_now(&store).await;
    assert_eq!(events(&store), ["a", "b"]);
    clock.0.store(3600, Ordering::SeqCst);
    sweep_now(&store).await;
    assert_eq!(events(&store), ["b"], "written again is a new life");
    let seen = watcher.ready().unwrap();
    assert_eq!((seen[0].kind, seen[0].object.key.name.as_str()), (EventKind::Deleted, "a"));
    let store = reopen(store);
    clock.0.store(5400, Ordering::SeqCst);
    sweep_now(&store).await;
    assert!(events(&store).is_empty());
    assert_eq!(names(&store), ["a-widget"]);
}

#[tokio::test]
async fn in_memory() {
    let clock = Arc::new(Hand::default());
    lives(Store::memory_on(options(&clock)), clock, |store| store).await;
}

#[tokio::test]
async fn in_a_directory_and_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::default());
    let open = || Store::open_file_on(dir.path(), options(&clock)).unwrap();
    lives(open(), clock.clone(), |store| {
        drop(store);
        open()
    })
    .await;
}

#[tokio::test]
async fn events_from_before_there_was_a_limit_get_a_whole_life() {
    let dir = tempfile::tempdir().unwrap();
    Store::open_file(dir.path()).unwrap().write(event("old", Expect::Absent)).await.unwrap();
    let clock = Arc::new(Hand::default());
    clock.0.store(10_000, Ordering::SeqCst);
    let store = Store::open_file_on(dir.path(), options(&clock)).unwrap();
    clock.0.store(13_599, Ordering::SeqCst);
    sweep_now(&store).await;
    assert_eq!(events(&store), ["old"]);
    clock.0.store(13_600, Ordering::SeqCst);
    sweep_now(&store).await;
    assert!(events(&store).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_task_deletes_what_is_due_and_ends_with_the_store() {
    let clock = Arc::new(Hand::default());
    let store = Store::memory_on(options(&clock));
    store.expire_in_background();
    for n in 0..600 {
        store.write(event(&format!("e{n}"), Expect::Absent)).await.unwrap();
    }
    clock.0.store(3600, Ordering::SeqCst);
    // Time is paused, so this takes none.
    let gone = async {
        while !events(&store).is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), gone).await.expect("all events are gone");
    let inner = Arc::downgrade(&store.inner);
    drop(store);
    until("the store is closed", || inner.upgrade().is_none()).await;
}
