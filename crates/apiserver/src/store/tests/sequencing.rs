//! The sequencer, on backends that do as they are told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

/// Counts syncs and lets the test decide when each ends.
struct Slow {
    syncs: Arc<AtomicUsize>,
    started: mpsc::Sender<usize>,
    finish: mpsc::Receiver<Result<(), AppendError>>,
    /// What each reopening finds.
    found: mpsc::Receiver<Result<u64, String>>,
}

/// The ends of a slow backend that the test holds.
struct Control {
    syncs: Arc<AtomicUsize>,
    started: mpsc::Receiver<usize>,
    finish: mpsc::Sender<Result<(), AppendError>>,
    found: mpsc::Sender<Result<u64, String>>,
}

fn slow() -> (Store, Control) {
    let (started, started_rx) = mpsc::channel();
    let (finish_tx, finish) = mpsc::channel();
    let (found_tx, found) = mpsc::channel();
    let syncs = Arc::new(AtomicUsize::new(0));
    let backend = Slow { syncs: syncs.clone(), started, finish, found };
    let store = Store::on_thread(Box::new(backend), Loaded::default(), Options::default()).unwrap();
    (store, Control { syncs, started: started_rx, finish: finish_tx, found: found_tx })
}

fn failure() -> AppendError {
    AppendError { why: "disk broken".into(), full: false }
}

impl Backend for Slow {
    fn append(&mut self, batch: &[Record], _version: u64) -> Result<(), AppendError> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let _ = self.started.send(batch.len());
        self.finish.recv().unwrap_or(Ok(()))
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        let version = self.found.recv().unwrap_or(Err("gone".into()))?;
        Ok(Loaded { version, ..Loaded::default() })
    }
}

#[tokio::test]
async fn writes_that_queue_during_a_sync_share_the_next_one() {
    let (store, control) = slow();
    let mut first = Box::pin(create(&store, "first"));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(control.started.recv().unwrap(), 1);
    let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
    let mut rest = Box::pin(futures::future::join_all(names.iter().map(|name| create(&store, name))));
    assert!(futures::poll!(&mut rest).is_pending());
    assert!(store.get(&kind(), &key("first")).is_none(), "invisible until durable");

    control.finish.send(Ok(())).unwrap();
    first.await;
    assert_eq!(control.started.recv().unwrap(), 10);
    control.finish.send(Ok(())).unwrap();
    rest.await;
    assert_eq!(control.syncs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_failed_write_that_did_not_land_is_an_error_and_the_next_one_works() {
    let (store, control) = slow();
    control.finish.send(Err(failure())).unwrap();
    control.found.send(Ok(store.version())).unwrap();
    let result = store.write(put("a", "1", Expect::Absent)).await;
    let Err(WriteError::Unavailable(Trouble::NotWritten(why))) = result else { panic!("{result:?}") };
    assert_eq!(why, "disk broken");
    assert!(store.get(&kind(), &key("a")).is_none());
    control.finish.send(Ok(())).unwrap();
    create(&store, "a").await;
}

#[tokio::test]
async fn a_failed_write_that_landed_is_written_again_and_acknowledged() {
    let (store, control) = slow();
    control.finish.send(Err(failure())).unwrap();
    control.found.send(Ok(store.version() + 1)).unwrap();
    control.finish.send(Ok(())).unwrap();
    let stored = create(&store, "a").await;
    assert_eq!(control.syncs.load(Ordering::SeqCst), 2, "what is readable need not be on the disk");
    assert_eq!(store.get(&kind(), &key("a")).unwrap().version, stored.version);
}

#[tokio::test]
async fn a_write_whose_outcome_is_unknown_shows_up_when_it_is_found() {
    let (store, control) = slow();
    let mut watcher = store.watch(&kind(), store.version()).unwrap();
    control.finish.send(Err(failure())).unwrap();
    control.found.send(Err("still broken".into())).unwrap();
    let result = store.write(put("a", "1", Expect::Absent)).await;
    assert!(matches!(result, Err(WriteError::Unavailable(Trouble::Unknown(_)))), "{result:?}");
    assert!(store.get(&kind(), &key("a")).is_none(), "unknown is not visible");

    // Who comes meanwhile is refused and told so.
    let mut other = Box::pin(store.write(put("b", "1", Expect::Absent)));
    assert!(futures::poll!(&mut other).is_pending());
    control.found.send(Err("still broken".into())).unwrap();
    let refused = other.await;
    assert!(matches!(refused, Err(WriteError::Unavailable(Trouble::NotWritten(_)))), "{refused:?}");

    control.found.send(Ok(store.version() + 1)).unwrap();
    control.finish.send(Ok(())).unwrap();
    assert_eq!(watcher.next().await.unwrap()[0].object.key.name, "a");
    control.finish.send(Ok(())).unwrap();
    create(&store, "b").await;
}

/// Fails at every call and says when it was opened again.
struct Broken(mpsc::Sender<std::time::Instant>);

impl Backend for Broken {
    fn append(&mut self, _batch: &[Record], _version: u64) -> Result<(), AppendError> {
        Err(failure())
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        let _ = self.0.send(std::time::Instant::now());
        Err("read-only".into())
    }
}

#[tokio::test]
async fn a_broken_disk_is_tried_less_and_less_often_and_callers_do_not_wait_for_it() {
    let (tried, tries) = mpsc::channel();
    let store = Store::on_thread(Box::new(Broken(tried)), Loaded::default(), Options::default()).unwrap();
    assert!(store.write(put("a", "1", Expect::Absent)).await.is_err());
    let at: Vec<_> = (0..5).map(|_| tries.recv().unwrap()).collect();
    assert!(at[4] - at[3] >= std::time::Duration::from_millis(900), "{at:?}");
    assert_eq!(store.trouble().as_deref(), Some("read-only"));
    // The next try is two seconds away.
    assert!(store.write(put("a", "1", Expect::Absent)).await.is_err());
    assert!(tries.try_recv().is_err(), "the answer did not wait for a try");
}

#[tokio::test]
async fn a_disk_that_lost_what_was_acknowledged_gets_no_more_writes() {
    let (store, control) = slow();
    control.finish.send(Ok(())).unwrap();
    create(&store, "a").await;
    control.finish.send(Err(failure())).unwrap();
    control.found.send(Ok(store.version() - 1)).unwrap();
    let result = store.write(put("b", "1", Expect::Absent)).await;
    assert!(matches!(result, Err(WriteError::Unavailable(Trouble::Unknown(_)))), "{result:?}");
    assert_eq!(names(&store), ["a"], "reads go on");
    drop(control);
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

#[tokio::test]
async fn a_full_store_refuses_growth_and_nothing_else() {
    let store = Store::memory_on(Options { quota: 3_000, ..Options::default() });
    let filler = "x".repeat(1_000);
    let first = store.write(put("a", &filler, Expect::Absent)).await.unwrap();
    let refused = store.write(put("b", &filler, Expect::Absent)).await;
    let Err(WriteError::Unavailable(Trouble::Full(why))) = refused else { panic!("{refused:?}") };
    assert!(why.contains("of 3000 bytes"), "{why}");
    let version = store.version();
    let smaller = store.write(put("a", "small", Expect::Version(first.version))).await.unwrap();
    assert_eq!(smaller.version, version + 1, "a refused write takes no version");
    let b = store.write(put("b", &filler, Expect::Absent)).await.unwrap();
    store.write(delete("b", b.version)).await.unwrap();
    store.write(put("c", &filler, Expect::Absent)).await.unwrap();
    assert_eq!(names(&store), ["a", "c"]);
}
