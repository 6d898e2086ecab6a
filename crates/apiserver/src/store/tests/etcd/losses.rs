//! Answers that get lost on the way.

use std::time::Duration;

use super::proxy::Mode;
use super::*;

/// A store behind a proxy, and one beside it.
async fn two() -> (Proxy, Store, Store) {
    let (cluster, prefix) = (cluster::shared(), cluster::prefix());
    let direct = cluster.store_at(0, &prefix, Options::default()).await;
    let proxy = Proxy::to(cluster.address(0)).await;
    let settings = cluster::settings(vec![proxy.url.clone()], &prefix);
    let behind = Store::open_etcd(settings, Options::default(), &cluster::RANDOM).await.unwrap();
    (proxy, behind, direct)
}

/// Starts a write whose answer is lost, lets something happen once it has landed, and then mends the connection.
async fn lose<F: Future<Output = ()>>(
    proxy: &Proxy,
    store: &Store,
    write: Write,
    landed: impl Fn() -> bool,
    meanwhile: F,
) -> Result<Arc<Stored>, WriteError> {
    proxy.set(Mode::Deaf);
    let writing = tokio::spawn({
        let store = store.clone();
        async move { store.write(write).await }
    });
    until("the write lands", landed).await;
    meanwhile.await;
    assert!(!writing.is_finished(), "there was no answer");
    proxy.set(Mode::Cut);
    tokio::time::sleep(Duration::from_millis(50)).await;
    proxy.set(Mode::Open);
    writing.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_landed_is_found_and_not_repeated() {
    let (proxy, store, direct) = two().await;
    let there = || direct.get(&kind(), &key("a")).is_some();
    let written = lose(&proxy, &store, put("a", "1", Expect::Absent), there, async {}).await.unwrap();
    let found = direct.get(&kind(), &key("a")).unwrap();
    assert_eq!((written.version, &written.json), (found.version, &found.json));

    let newer = || direct.get(&kind(), &key("a")).unwrap().version > found.version;
    let update = put("a", "2", Expect::Version(found.version));
    let updated = lose(&proxy, &store, update, newer, async {}).await.unwrap();
    assert_eq!(direct.get(&kind(), &key("a")).unwrap().version, updated.version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_landed_and_was_changed_since_is_still_a_success() {
    let (proxy, store, direct) = two().await;
    let there = || direct.get(&kind(), &key("a")).is_some();
    let change = async {
        let found = direct.get(&kind(), &key("a")).unwrap();
        let second = direct.write(put("a", "2", Expect::Version(found.version))).await.unwrap();
        direct.write(delete("a", second.version)).await.unwrap();
    };
    let start = direct.version();
    let written = lose(&proxy, &store, put("a", "1", Expect::Absent), there, change).await.unwrap();
    assert_eq!(written.value()["data"], "1");
    let mut watcher = direct.watch(&kind(), start).unwrap();
    direct.fresh().await.unwrap();
    let history: Vec<_> = watcher.ready().unwrap().iter().map(|event| (event.kind, event.version)).collect();
    assert_eq!(history.len(), 3, "it was not made again: {history:?}");
    assert_eq!(history[0], (EventKind::Added, written.version));
    assert!(store.get(&kind(), &key("a")).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_can_say_who_deleted_an_object() {
    let (proxy, store, direct) = two().await;
    let written = create(&store, "a").await;
    direct.fresh().await.unwrap();
    let gone = || direct.get(&kind(), &key("a")).is_none();
    let result = lose(&proxy, &store, delete("a", written.version), gone, async {}).await;
    let Err(WriteError::Unavailable(Trouble::Unknown(why))) = result else { panic!("{result:?}") };
    assert!(why.starts_with("the answer of etcd was lost"), "{why}");
    assert!(store.get(&kind(), &key("a")).is_none(), "what is there can be read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_was_not_sent_is_sent_when_the_connection_is_back() {
    let (proxy, store, direct) = two().await;
    create(&store, "before").await;
    proxy.set(Mode::Cut);
    let writing = tokio::spawn({
        let store = store.clone();
        async move { store.write(put("a", "1", Expect::Absent)).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.set(Mode::Open);
    let written = writing.await.unwrap().unwrap();
    direct.fresh().await.unwrap();
    assert_eq!(direct.get(&kind(), &key("a")).unwrap().version, written.version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_miss_nothing_while_the_connection_is_cut() {
    let (proxy, store, direct) = two().await;
    let mut watcher = store.watch(&kind(), store.version()).unwrap();
    create(&direct, "a").await;
    assert_eq!(watcher.next().await.unwrap()[0].object.key.name, "a");
    proxy.set(Mode::Cut);
    create(&direct, "b").await;
    create(&direct, "c").await;
    assert!(watcher.ready().unwrap().is_empty());
    until("the store says that it is cut off", || store.trouble().is_some()).await;
    proxy.set(Mode::Open);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(watcher.next().await.unwrap().iter().map(|event| event.object.key.name.clone()));
    }
    assert_eq!(seen, ["b", "c"]);
    store.fresh().await.unwrap();
    assert_eq!(store.trouble(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_cut_off_asks_less_and_less_often() {
    let (proxy, store, direct) = two().await;
    let start = tokio::time::Instant::now();
    proxy.set(Mode::Cut);
    until("several tries", || proxy.refused() >= 6).await;
    // 50 ms, then twice as long each time.
    assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(store.trouble().is_some());
    proxy.set(Mode::Open);
    let written = create(&direct, "a").await;
    until("it goes on", || store.version() >= written.version).await;
    assert_eq!(store.trouble(), None);
}
