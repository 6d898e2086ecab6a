//! Compaction, and an etcd that was put back to an earlier state.

use bowline_proto::etcd::RangeRequest;
use tokio::time::{Duration, Instant};

use super::proxy::Mode;
use super::*;
use crate::store::etcd::client::signed;
use crate::store::etcd::compaction;
use crate::store::etcd::failure::Failure;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_compacted_meanwhile_is_read_again_and_watchers_are_told() {
    let cluster = Cluster::start(1, &[]);
    let prefix = cluster::prefix();
    let direct = cluster.store_at(0, &prefix, Options::default()).await;
    let proxy = Proxy::to(cluster.address(0)).await;
    let settings = cluster::settings(vec![proxy.url.clone()], &prefix);
    let store = Store::open_etcd(settings, Options::default(), &cluster::RANDOM).await.unwrap();
    let kept = create(&store, "kept").await;
    create(&store, "deleted").await;
    let before = store.version();
    let mut watcher = store.watch(&kind(), before).unwrap();

    proxy.set(Mode::Cut);
    direct.fresh().await.unwrap();
    let deleted = direct.get(&kind(), &key("deleted")).unwrap();
    direct.write(delete("deleted", deleted.version)).await.unwrap();
    let last = create(&direct, "new").await;
    cluster.client().await.compact(signed(last.version)).await.unwrap();
    proxy.set(Mode::Open);

    let gone = watcher.next().await.expect_err("the deletion cannot be told any more");
    assert!(gone.oldest >= last.version);
    store.fresh().await.unwrap();
    assert_eq!(listed(&store, None), [("kept".to_owned(), kept.version), ("new".to_owned(), last.version)]);
    assert!(store.watch(&kind(), before).is_err());
    let mut watcher = store.watch(&kind(), store.version()).unwrap();
    create(&direct, "later").await;
    assert_eq!(watcher.next().await.unwrap()[0].object.key.name, "later");
    create(&store, "own").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_state_of_etcd_is_noticed() {
    let cluster = Cluster::start(1, &[]);
    let prefix = cluster::prefix();
    let store = cluster.store_at(0, &prefix, Options::default()).await;
    for n in 0..20 {
        create(&store, &format!("n{n}")).await;
    }
    let mut watcher = store.watch(&kind(), store.version()).unwrap();
    cluster.kill(0);
    std::fs::remove_dir_all(cluster.data(0)).unwrap();
    cluster.start_member(0);
    let gone = tokio::time::timeout(Duration::from_secs(30), watcher.next()).await.unwrap();
    assert!(gone.is_err(), "{gone:?}");
    until("the new state is read", || names(&store).is_empty()).await;
    store.fresh().await.unwrap();
    create(&store, "new").await;
    assert_eq!(names(&store), ["new"]);
}

/// Whether a revision can still be read.
async fn kept(client: &crate::store::etcd::client::Client, revision: u64) -> bool {
    let request = RangeRequest { key: "/x".into(), revision: signed(revision), ..RangeRequest::default() };
    match client.range(request, Instant::now() + Duration::from_secs(5)).await {
        Ok(_) => true,
        Err(Failure::Compacted) => false,
        Err(failure) => panic!("{failure}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_compacts_for_all() {
    let cluster = Cluster::start(1, &[]);
    let client = cluster.client().await;
    let store = cluster.store(Options::default()).await;
    let early = create(&store, "a").await.version;

    let first = compaction::compact(&client, Default::default()).await.unwrap();
    // Another server comes later and learns whose turn it is.
    let second = compaction::compact(&client, Default::default()).await.unwrap();
    assert_eq!(first.turn, second.turn);
    assert!(kept(&client, early).await, "nothing goes in the first round");
    let late = create(&store, "b").await.version;

    let after = compaction::compact(&client, second).await.unwrap();
    assert_eq!(after.turn, second.turn + 1, "the second one was first this time");
    assert!(!kept(&client, early).await, "what was old an interval ago is gone");
    assert!(kept(&client, late).await);
    let learnt = compaction::compact(&client, first).await.unwrap();
    assert_eq!(learnt.turn, after.turn, "the first one leaves the round to it");
    assert!(kept(&client, late).await);
    assert_eq!(names(&store), ["a", "b"]);
}
