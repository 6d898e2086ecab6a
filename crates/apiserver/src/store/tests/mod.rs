//! One suite for every kind of store; each test runs on memory and on disk.

mod crash;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn kind() -> Arc<str> {
    "widgets.example.com".into()
}

fn object(name: &str, data: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "labels": {"data": data}}, "data": data})
}

fn put(name: &str, data: &str, expect: Expect) -> Write {
    Write { resource: kind(), key: key(name), expect, change: Change::Put(object(name, data)) }
}

fn delete(name: &str, version: u64) -> Write {
    Write { resource: kind(), key: key(name), expect: Expect::Version(version), change: Change::Delete }
}

async fn create(store: &Store, name: &str) -> Arc<Stored> {
    store.write(put(name, "1", Expect::Absent)).await.unwrap()
}

fn listed(store: &Store, at: Option<u64>) -> Vec<(String, u64)> {
    let page = store.page(&kind(), None, None, at, usize::MAX).unwrap();
    page.objects.iter().map(|o| (o.key.name.clone(), o.version)).collect()
}

/// Runs a test on both kinds of store.
fn on_both<F: Future<Output = ()>>(test: impl Fn(Store) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(Store::memory()));
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(test(Store::open_file(dir.path()).unwrap()));
}

#[test]
fn versions_grow_and_comparisons_hold() {
    on_both(|store| async move {
        let first = create(&store, "a").await;
        let second = create(&store, "b").await;
        assert!(second.version > first.version);
        assert_eq!(first.value()["metadata"]["resourceVersion"], first.version.to_string());

        let again = store.write(put("a", "2", Expect::Absent)).await;
        let Err(WriteError::Conflict { current: Some(current) }) = again else { panic!("{again:?}") };
        assert_eq!(current.version, first.version);

        let stale = store.write(put("a", "2", Expect::Version(first.version + 7))).await;
        assert!(matches!(stale, Err(WriteError::Conflict { .. })));
        let updated = store.write(put("a", "2", Expect::Version(first.version))).await.unwrap();
        assert_eq!(store.version(), updated.version);
        assert_eq!(store.get(&kind(), &key("a")).unwrap().labels()["data"], "2");

        let gone = store.write(delete("a", updated.version)).await.unwrap();
        assert!(gone.version > updated.version && store.get(&kind(), &key("a")).is_none());
        assert_eq!(gone.value()["data"], "2", "a deletion shows the last state");
        let nobody = store.write(delete("a", updated.version)).await;
        assert!(matches!(nobody, Err(WriteError::Conflict { current: None })));
    });
}

#[test]
fn a_watch_replays_everything_after_its_version_once_and_in_order() {
    on_both(|store| async move {
        let a = create(&store, "a").await;
        let mut from_start = store.watch(&kind(), 1).unwrap();
        let mut from_a = store.watch(&kind(), a.version).unwrap();
        let b = create(&store, "b").await;
        let a2 = store.write(put("a", "2", Expect::Version(a.version))).await.unwrap();
        let gone = store.write(delete("b", b.version)).await.unwrap();

        let seen = |events: Vec<Arc<Event>>| events.iter().map(|e| (e.kind, e.version)).collect::<Vec<_>>();
        let tail = vec![
            (EventKind::Added, b.version),
            (EventKind::Modified, a2.version),
            (EventKind::Deleted, gone.version),
        ];
        assert_eq!(seen(from_a.next().await.unwrap()), tail);
        let mut all = vec![(EventKind::Added, a.version)];
        all.extend(tail);
        assert_eq!(seen(from_start.next().await.unwrap()), all);
        assert!(from_a.ready().unwrap().is_empty(), "nothing is repeated");

        let (event, _) = tokio::join!(from_a.next(), create(&store, "c"));
        assert_eq!(event.unwrap()[0].object.key.name, "c", "a waiting watcher is woken");
    });
}

#[test]
fn a_bookmark_never_passes_an_event() {
    on_both(|store| async move {
        let mut watcher = store.watch(&kind(), 1).unwrap();
        let a = create(&store, "a").await;
        assert_eq!(watcher.settled(), None);
        watcher.ready().unwrap();
        assert_eq!(watcher.settled(), Some(a.version));
        let other = Write { resource: "other".into(), ..put("x", "1", Expect::Absent) };
        let other = store.write(other).await.unwrap();
        assert_eq!(watcher.settled(), Some(other.version), "a quiet kind moves on with the store");
    });
}

#[tokio::test]
async fn history_beyond_the_log_is_gone() {
    let by_count = Limits { log_events: 10, ..Limits::default() };
    let by_size = Limits { log_bytes: 1_000, ..Limits::default() };
    for limits in [by_count, by_size] {
        let store = Store::memory_with(limits);
        let first = create(&store, "a").await;
        let mut slow = store.watch(&kind(), first.version).unwrap();
        let mut version = first.version;
        for _ in 0..20 {
            version = store.write(put("a", "again", Expect::Version(version))).await.unwrap().version;
        }
        assert!(slow.next().await.is_err(), "a watcher that fell behind is told so");
        assert!(store.watch(&kind(), first.version).is_err());
        assert!(store.watch(&kind(), version).is_ok());
        assert!(store.page(&kind(), None, None, Some(first.version), 10).is_err());
    }
}

#[test]
fn pages_show_one_version() {
    on_both(|store| async move {
        for name in ["a", "b", "c", "d"] {
            create(&store, name).await;
        }
        let before = listed(&store, None);
        let first = store.page(&kind(), Some("ns"), None, None, 2).unwrap();
        assert_eq!((first.objects.len(), first.remaining), (2, 2));
        let version_of = |name: &str| store.get(&kind(), &key(name)).unwrap().version;
        store.write(delete("c", version_of("c"))).await.unwrap();
        store.write(put("d", "2", Expect::Version(version_of("d")))).await.unwrap();
        store.write(put("d", "3", Expect::Version(version_of("d")))).await.unwrap();
        create(&store, "cc").await;

        assert_eq!(listed(&store, Some(first.version)), before);
        let second =
            store.page(&kind(), Some("ns"), Some(&key("b")), Some(first.version), usize::MAX).unwrap();
        let names: Vec<_> = second.objects.iter().map(|o| o.key.name.as_str()).collect();
        assert_eq!(names, ["c", "d"]);
        assert_eq!(second.objects[1].value()["data"], "1");
        let now: Vec<_> = listed(&store, None).into_iter().map(|(name, _)| name).collect();
        assert_eq!(now, ["a", "b", "cc", "d"]);
        assert!(store.page(&kind(), Some("elsewhere"), None, None, 9).unwrap().objects.is_empty());
    });
}

#[test]
fn waiting_for_a_version() {
    on_both(|store| async move {
        let target = store.version() + 2;
        tokio::join!(store.reached(target), async {
            create(&store, "a").await;
            create(&store, "b").await;
        });
        store.reached(target).await;
    });
}

#[test]
fn sixty_four_writers_lose_nothing() {
    const WRITERS: usize = 64;
    const EACH: usize = 20;
    let run = |store: Store| async move {
        let mut watcher = store.watch(&kind(), store.version()).unwrap();
        let writers = (0..WRITERS).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..EACH {
                    create(&store, &format!("w{writer}-{n}")).await;
                    // All of them also fight over one object.
                    let shared = store.get(&kind(), &key("shared"));
                    let expect = shared.map_or(Expect::Absent, |o| Expect::Version(o.version));
                    let _ = store.write(put("shared", &format!("{writer}"), expect)).await;
                }
            })
        });
        futures::future::join_all(writers).await.into_iter().for_each(|w| w.unwrap());
        let mut last = 0;
        let mut created = 0;
        loop {
            let events = watcher.ready().unwrap();
            if events.is_empty() {
                break;
            }
            for event in events {
                assert!(event.version > last, "versions grow along a watch");
                last = event.version;
                created += usize::from(event.object.key.name != "shared");
            }
        }
        assert_eq!(created, WRITERS * EACH);
        assert_eq!(listed(&store, None).len(), WRITERS * EACH + 1);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(run(Store::memory()));
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(run(Store::open_file(dir.path()).unwrap()));
}

/// Counts syncs and lets the test decide when each ends.
struct Slow {
    syncs: Arc<AtomicUsize>,
    started: std::sync::mpsc::Sender<usize>,
    finish: std::sync::mpsc::Receiver<Result<(), String>>,
}

impl Backend for Slow {
    fn append(&mut self, batch: &[Record], _version: u64) -> Result<(), String> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let _ = self.started.send(batch.len());
        self.finish.recv().unwrap_or(Ok(()))
    }
}

#[tokio::test]
async fn writes_that_queue_during_a_sync_share_the_next_one() {
    let (started, batches) = std::sync::mpsc::channel();
    let (go, finish) = std::sync::mpsc::channel();
    let syncs = Arc::new(AtomicUsize::new(0));
    let backend = Slow { syncs: syncs.clone(), started, finish };
    let store = Store::on_thread(Box::new(backend), Loaded::default()).unwrap();

    let mut first = Box::pin(create(&store, "first"));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(batches.recv().unwrap(), 1);
    let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
    let mut rest = Box::pin(futures::future::join_all(names.iter().map(|name| create(&store, name))));
    assert!(futures::poll!(&mut rest).is_pending());
    assert!(store.get(&kind(), &key("first")).is_none(), "invisible until durable");

    go.send(Ok(())).unwrap();
    first.await;
    assert_eq!(batches.recv().unwrap(), 10);
    go.send(Ok(())).unwrap();
    rest.await;
    assert_eq!(syncs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_visible_and_nothing_is_written() {
    let (started, _batches) = std::sync::mpsc::channel();
    let (go, finish) = std::sync::mpsc::channel();
    let backend = Slow { syncs: Arc::default(), started, finish };
    let store = Store::on_thread(Box::new(backend), Loaded::default()).unwrap();
    go.send(Err("disk full".into())).unwrap();
    for _ in 0..2 {
        let result = store.write(put("a", "1", Expect::Absent)).await;
        assert!(matches!(result, Err(WriteError::Unavailable(why)) if why == "disk full"));
    }
    assert!(store.get(&kind(), &key("a")).is_none());
}

#[tokio::test]
async fn a_reopened_directory_has_everything_and_versions_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, last) = {
        let store = Store::open_file(dir.path()).unwrap();
        let kept = create(&store, "kept").await;
        let gone = create(&store, "gone").await;
        let gone = store.write(delete("gone", gone.version)).await.unwrap();
        (kept, gone.version)
    };
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!(store.version(), last, "a deletion counts");
    assert_eq!(listed(&store, None), [("kept".to_owned(), kept.version)]);
    assert_eq!(store.get(&kind(), &key("kept")).unwrap().json, kept.json);
    assert!(store.watch(&kind(), kept.version).is_err(), "the log does not survive");
    assert!(store.watch(&kind(), last).is_ok());
    assert!(create(&store, "new").await.version > last);
}

#[tokio::test]
async fn deleted_and_created_again_in_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let (backend, _) = file::open(dir.path()).unwrap();
    let shared = Arc::new(Shared::new(Loaded::default(), Limits::default()));
    let mut sequencer = Sequencer::new(shared, Box::new(backend));
    let first = sequencer.commit(vec![put("a", "1", Expect::Absent)]).remove(0).unwrap();
    let results = sequencer.commit(vec![delete("a", first.version), put("a", "2", Expect::Absent)]);
    assert!(results.iter().all(Result::is_ok));
    drop(sequencer);
    let store = Store::open_file(dir.path()).unwrap();
    assert_eq!(store.get(&kind(), &key("a")).unwrap().value()["data"], "2");
}

#[test]
fn a_directory_is_for_one_process_and_one_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    let store = Store::open_file(dir.path()).unwrap();
    let error = Store::open_file(dir.path()).err().unwrap().to_string();
    let pid = std::process::id();
    assert_eq!(error, format!("data directory {path} is in use by another process (pid {pid})"));
    drop(store);
    std::fs::write(dir.path().join("format"), "99\n").unwrap();
    let error = Store::open_file(dir.path()).err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "data directory {path} was written by a newer version (format \"99\", this one reads up to 1): use that version or another directory"
        )
    );
}
