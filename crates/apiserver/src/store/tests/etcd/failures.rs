//! Members that die under load, and one that is full.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

const WRITERS: usize = 16;

/// What became of the writes of a storm.
#[derive(Default)]
struct Results {
    acknowledged: Vec<(String, u64)>,
    unknown: BTreeSet<String>,
    refused: BTreeSet<String>,
}

/// Creates objects until it is stopped.
async fn storm(store: Store, writer: usize, stop: Arc<AtomicBool>, done: Arc<AtomicUsize>) -> Results {
    let mut results = Results::default();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("w{writer}-{n}");
        match store.write(put(&name, "1", Expect::Absent)).await {
            Ok(object) => {
                results.acknowledged.push((name, object.version));
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(WriteError::Unavailable(Trouble::Unknown(_))) => drop(results.unknown.insert(name)),
            Err(WriteError::Unavailable(_)) => drop(results.refused.insert(name)),
            Err(WriteError::Conflict { .. }) => panic!("{name} was made by this writer alone"),
        }
    }
    results
}

/// Waits until so many more writes are done.
async fn progress(done: &AtomicUsize, more: usize) {
    let target = done.load(Ordering::Relaxed) + more;
    until("writes go on", || done.load(Ordering::Relaxed) >= target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_die_and_nothing_is_lost() {
    let cluster = Cluster::start(3, &[]);
    let prefix = cluster::prefix();
    let stores = [
        cluster.store_at(0, &prefix, Options::default()).await,
        cluster.store_at(1, &prefix, Options::default()).await,
    ];
    let start = stores[0].version();
    let mut watcher = stores[1].watch(&kind(), stores[1].version()).unwrap();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| tokio::spawn(storm(stores[n % 2].clone(), n, stop.clone(), done.clone())))
        .collect();
    progress(&done, 100).await;
    // The one a server talks to, then whoever leads, each while all write.
    for _ in 0..2 {
        cluster.kill(0);
        progress(&done, 100).await;
        cluster.start_member(0);
        progress(&done, 100).await;
        let leader = cluster.leader().await;
        cluster.kill(leader);
        progress(&done, 100).await;
        cluster.start_member(leader);
        progress(&done, 100).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = Results::default();
    for writer in writers {
        let results = writer.await.unwrap();
        all.acknowledged.extend(results.acknowledged);
        all.unknown.extend(results.unknown);
        all.refused.extend(results.refused);
    }
    println!(
        "{} acknowledged, {} unknown, {} refused",
        all.acknowledged.len(),
        all.unknown.len(),
        all.refused.len()
    );
    let late = cluster.store_at(2, &prefix, Options::default()).await;
    let found = listed(&late, None);
    let versions: std::collections::BTreeMap<_, _> = found.iter().cloned().collect();
    for (name, version) in &all.acknowledged {
        assert_eq!(versions.get(name), Some(version), "{name}");
    }
    assert!(all.refused.iter().all(|name| !versions.contains_key(name)), "what was refused did not happen");
    for store in &stores {
        store.fresh().await.unwrap();
        assert_eq!(listed(store, None), found);
    }
    // A watcher saw each object once, in order.
    let mut seen = Vec::new();
    loop {
        let events = watcher.ready().unwrap();
        if events.is_empty() {
            break;
        }
        seen.extend(events.iter().map(|event| (event.object.key.name.clone(), event.version)));
    }
    assert!(
        seen.iter().all(|(_, version)| *version > start) && seen.is_sorted_by_key(|(_, version)| *version)
    );
    seen.sort();
    assert_eq!(seen, found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_is_acknowledged_and_reads_say_so() {
    let cluster = Cluster::start(3, &[]);
    let store = cluster.store(Options::default()).await;
    create(&store, "a").await;
    cluster.kill(1);
    cluster.kill(2);
    let (written, fresh) = tokio::join!(store.write(put("b", "1", Expect::Absent)), store.fresh());
    assert!(matches!(written, Err(WriteError::Unavailable(_))), "{written:?}");
    assert!(matches!(fresh, Err(Trouble::NotWritten(_))), "{fresh:?}");
    assert!(
        store.get(&kind(), &key("a")).is_some(),
        "what is known can be read by whoever does not mind its age"
    );
    cluster.start_member(1);
    cluster.start_member(2);
    until_fresh(&store).await;
    create(&store, "c").await;
    assert!(names(&store).contains(&"c".to_owned()));
}

async fn until_fresh(store: &Store) {
    for _ in 0..20 {
        if store.fresh().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("etcd is back, the store is not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_clearly_and_lets_go() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes", "4194304"]);
    let store = cluster.store(Options::default()).await;
    let filler = "x".repeat(300_000);
    let mut written = Vec::new();
    let trouble = loop {
        let name = format!("n{}", written.len());
        match store.write(put(&name, &filler, Expect::Absent)).await {
            Ok(object) => written.push((name, object.version)),
            Err(WriteError::Unavailable(trouble)) => break trouble,
            Err(error) => panic!("{error}"),
        }
        assert!(written.len() < 100);
    };
    assert!(matches!(trouble, Trouble::Full(_)), "{trouble:?}");
    assert!(trouble.to_string().contains("etcd has reached its quota"), "{trouble}");
    store.fresh().await.unwrap();
    assert_eq!(names(&store).len(), written.len(), "reads go on");
    let (name, version) = &written[0];
    store.write(delete(name, *version)).await.expect("deletes go on");

    let large = store.write(put("large", &"x".repeat(3 << 20), Expect::Absent)).await;
    assert!(
        matches!(large, Err(WriteError::Unavailable(Trouble::TooLarge(_) | Trouble::Full(_)))),
        "{large:?}"
    );
}
