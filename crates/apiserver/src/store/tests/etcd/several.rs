//! Several servers on one etcd.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_writes_the_other_reads() {
    let (cluster, prefix) = (cluster::shared(), cluster::prefix());
    let one = cluster.store_at(0, &prefix, Options::default()).await;
    let two = cluster.store_at(1, &prefix, Options::default()).await;
    for n in 0..50 {
        let name = format!("n{n}");
        let written = create(&one, &name).await;
        two.fresh().await.unwrap();
        assert_eq!(two.get(&kind(), &key(&name)).expect("read after fresh").json, written.json);
        // With the same version, and the other way round.
        let updated = two.write(put(&name, "2", Expect::Version(written.version))).await.unwrap();
        one.fresh().await.unwrap();
        assert_eq!(one.get(&kind(), &key(&name)).unwrap().version, updated.version);
    }
    let late = cluster.store_at(2, &prefix, Options::default()).await;
    assert_eq!(listed(&late, None), listed(&one, None), "one that starts later reads everything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_count_together_and_see_the_same() {
    const EACH: usize = 10;
    let (cluster, prefix) = (cluster::shared(), cluster::prefix());
    let mut stores = Vec::new();
    for n in 0..3 {
        stores.push(cluster.store_at(n, &prefix, Options::default()).await);
    }
    stores[0].write(put("counter", "0", Expect::Absent)).await.unwrap();
    let start = stores[0].version();
    let mut watchers = Vec::new();
    for store in &stores {
        store.fresh().await.unwrap();
        watchers.push(store.watch(&kind(), start).unwrap());
    }
    let counting = (0..12).map(|n| {
        let store = stores[n % 3].clone();
        tokio::spawn(async move {
            for _ in 0..EACH {
                count_up(&store, "counter").await;
            }
        })
    });
    futures::future::join_all(counting).await.into_iter().for_each(|task| task.unwrap());
    let mut histories = Vec::new();
    for (store, watcher) in stores.iter().zip(&mut watchers) {
        store.fresh().await.unwrap();
        assert_eq!(store.get(&kind(), &key("counter")).unwrap().value()["data"], (12 * EACH).to_string());
        let events = watcher.ready().unwrap();
        histories
            .push(events.iter().map(|event| (event.version, event.object.json.clone())).collect::<Vec<_>>());
    }
    assert_eq!(histories[0].len(), 12 * EACH);
    assert!(histories.iter().all(|history| *history == histories[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_view_is_refreshed_before_a_conflict_is_answered() {
    let (cluster, prefix) = (cluster::shared(), cluster::prefix());
    let one = cluster.store_at(0, &prefix, Options::default()).await;
    let proxy = Proxy::to(cluster.address(1)).await;
    let two = Store::open_etcd(
        cluster::settings(vec![proxy.url.clone()], &prefix),
        Options::default(),
        &cluster::RANDOM,
    )
    .await
    .unwrap();
    for n in 0..30 {
        let name = format!("n{n}");
        let written = create(&one, &name).await;
        let refused = two.write(put(&name, "2", Expect::Absent)).await;
        let Err(WriteError::Conflict { current: Some(current) }) = refused else { panic!("{refused:?}") };
        assert_eq!(current.version, written.version);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fresh_does_not_wait_for_what_others_write_elsewhere() {
    let cluster = cluster::shared();
    let store = cluster.store(Options::default()).await;
    let elsewhere = cluster.store(Options::default()).await;
    for n in 0..20 {
        let written = create(&elsewhere, &format!("n{n}")).await;
        let fresh = tokio::time::timeout(std::time::Duration::from_secs(60), store.fresh()).await;
        fresh.expect("progress is asked for").unwrap();
        assert!(store.version() >= written.version);
    }
    assert!(names(&store).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_is_taken_by_one_kind_of_program() {
    let cluster = cluster::shared();
    let client = cluster.client().await;
    let open = |prefix: String| async move {
        let opened =
            Store::open_etcd(cluster.settings_from(0, &prefix), Options::default(), &cluster::RANDOM).await;
        opened.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let foreign = cluster::prefix();
    client.put(&format!("{foreign}/pods/default/a"), "k8s").await;
    let error = open(foreign.clone()).await;
    assert!(error.contains(&format!("{foreign} holds data of another program")), "{error}");

    let newer = cluster::prefix();
    client.put(&format!("{newer}/bowline-format"), "2\n").await;
    let error = open(newer.clone()).await;
    assert!(
        error.contains("was written by a newer version (format \"2\", this one reads up to 1)"),
        "{error}"
    );

    let broken = cluster::prefix();
    client.put(&format!("{broken}/bowline-format"), "1\n").await;
    client.put(&format!("{broken}/pods/default/a"), "{").await;
    let error = open(broken.clone()).await;
    assert!(error.contains(&format!("key {broken}/pods/default/a: its value is not JSON")), "{error}");
    let report = check_etcd(&cluster.settings_from(0, &broken)).await.unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");

    let good = cluster::prefix();
    let store = cluster.store_at(0, &good, Options::default()).await;
    create(&store, "a").await;
    let report = check_etcd(&cluster.settings_from(0, &good)).await.unwrap();
    assert_eq!((report.total.objects, report.problems.len()), (1, 0));
    let nothing = check_etcd(&cluster.settings_from(0, &cluster::prefix())).await.unwrap_err().to_string();
    assert!(nothing.contains("there is no store below"), "{nothing}");

    // Somebody else's hand in a running store: the object is gone, the others stay.
    client.put(&format!("{good}/{}/ns/a", kind()), "garbage").await;
    create(&store, "b").await;
    assert_eq!(names(&store), ["b"]);
}
