//! What holds for every store. Others may write to the same etcd, so versions may leap.

use super::*;

pub async fn versions_grow_and_comparisons_hold(store: Store) {
    let first = create(&store, "a").await;
    let second = create(&store, "b").await;
    assert!(second.version > first.version);
    assert_eq!(first.value()["metadata"]["resourceVersion"], first.version.to_string());
    assert_eq!(store.get(&kind(), &key("a")).unwrap().json, first.json, "an answer is what is read");

    let again = store.write(put("a", "2", Expect::Absent)).await;
    let Err(WriteError::Conflict { current: Some(current) }) = again else { panic!("{again:?}") };
    assert_eq!(current.version, first.version);

    let stale = store.write(put("a", "2", Expect::Version(first.version + 7))).await;
    assert!(matches!(stale, Err(WriteError::Conflict { .. })));
    let updated = store.write(put("a", "2", Expect::Version(first.version))).await.unwrap();
    assert!(store.version() >= updated.version);
    assert_eq!(store.get(&kind(), &key("a")).unwrap().labels()["data"], "2");

    let gone = store.write(delete("a", updated.version)).await.unwrap();
    assert!(gone.version > updated.version && store.get(&kind(), &key("a")).is_none());
    assert_eq!(gone.value()["data"], "2", "a deletion shows the last state");
    assert_eq!(gone.value()["metadata"]["resourceVersion"], gone.version.to_string());
    let nobody = store.write(delete("a", updated.version)).await;
    assert!(matches!(nobody, Err(WriteError::Conflict { current: None })));
    store.fresh().await.unwrap();
}

pub async fn a_watch_replays_everything_after_its_version_once_and_in_order(store: Store) {
    let start = store.version();
    let a = create(&store, "a").await;
    let mut from_start = store.watch(&kind(), start).unwrap();
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
    let events = from_start.next().await.unwrap();
    assert_eq!(events[3].object.value()["data"], "1", "a deletion shows the last state");
    assert_eq!(events[2].previous.as_ref().unwrap().version, a.version);
    assert_eq!(seen(events), all);
    assert!(from_a.ready().unwrap().is_empty(), "nothing is repeated");

    let (event, _) = tokio::join!(from_a.next(), create(&store, "c"));
    assert_eq!(event.unwrap()[0].object.key.name, "c", "a waiting watcher is woken");
}

pub async fn a_bookmark_never_passes_an_event(store: Store) {
    let mut watcher = store.watch(&kind(), store.version()).unwrap();
    let a = create(&store, "a").await;
    assert_eq!(watcher.settled(), None);
    watcher.ready().unwrap();
    assert!(watcher.settled().unwrap() >= a.version);
    let other = Write { resource: "other".into(), ..put("x", "1", Expect::Absent) };
    let other = store.write(other).await.unwrap();
    assert!(watcher.settled().unwrap() >= other.version, "a quiet kind moves on with the store");
}

pub async fn pages_show_one_version(store: Store) {
    for name in ["a", "b", "c", "d"] {
        create(&store, name).await;
    }
    let before = listed(&store, None);
    let first = store.page(&kind(), Some("ns"), None, None, 2).unwrap();
    assert_eq!((first.objects.len(), first.remaining), (2, 2));
    for (max, remaining) in [(1, 1), (3, 1), (4, 0), (9, 0)] {
        let stretch = store.stretch(&kind(), Some("ns"), None, None, max).unwrap();
        assert_eq!((stretch.objects.len(), stretch.remaining), (max.min(4), remaining), "not counted");
    }
    let version_of = |name: &str| store.get(&kind(), &key(name)).unwrap().version;
    store.write(delete("c", version_of("c"))).await.unwrap();
    store.write(put("d", "2", Expect::Version(version_of("d")))).await.unwrap();
    store.write(put("d", "3", Expect::Version(version_of("d")))).await.unwrap();
    create(&store, "cc").await;

    assert_eq!(listed(&store, Some(first.version)), before);
    let second = store.page(&kind(), Some("ns"), Some(&key("b")), Some(first.version), usize::MAX).unwrap();
    let names_then: Vec<_> = second.objects.iter().map(|o| o.key.name.as_str()).collect();
    assert_eq!(names_then, ["c", "d"]);
    assert_eq!(second.objects[1].value()["data"], "1");
    assert_eq!(names(&store), ["a", "b", "cc", "d"]);
    assert!(store.page(&kind(), Some("elsewhere"), None, None, 9).unwrap().objects.is_empty());
}

pub async fn waiting_for_a_version(store: Store) {
    let target = store.version() + 2;
    tokio::join!(store.reached(target), async {
        create(&store, "a").await;
        create(&store, "b").await;
    });
    store.reached(target).await;
}

pub async fn sixty_four_writers_lose_nothing(store: Store) {
    const WRITERS: usize = 64;
    const EACH: usize = 20;
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
}

/// Adds one to a counter, however often others come in between.
pub async fn count_up(store: &Store, name: &str) {
    loop {
        let current = store.get(&kind(), &key(name)).unwrap();
        let count: u64 = current.value()["data"].as_str().unwrap().parse().unwrap();
        let next = put(name, &(count + 1).to_string(), Expect::Version(current.version));
        match store.write(next).await {
            Ok(_) => return,
            Err(WriteError::Conflict { current: Some(found) }) => {
                assert!(found.version > current.version, "a conflict shows something newer");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

pub async fn one_object_counts_every_writer(store: Store) {
    const WRITERS: u64 = 16;
    const EACH: u64 = 10;
    store.write(put("counter", "0", Expect::Absent)).await.unwrap();
    let writers = (0..WRITERS).map(|_| async {
        for _ in 0..EACH {
            count_up(&store, "counter").await;
        }
    });
    futures::future::join_all(writers).await;
    assert_eq!(store.get(&kind(), &key("counter")).unwrap().value()["data"], (WRITERS * EACH).to_string());
}

pub async fn objects_of_every_shape_come_back_as_they_were(store: Store) {
    let large = "x".repeat(1 << 20);
    let shapes = [
        ("pods", ObjectKey::new("ns", "dots.and-dashes"), json!({"a": [1, -2, 0.5, null, true, {}, []]})),
        ("storageclasses.storage.k8s.io", ObjectKey::cluster("cluster-wide"), json!({"resourceVersion": ""})),
        (
            "clusterroles.rbac.authorization.k8s.io",
            ObjectKey::cluster("system:node"),
            json!("ä \u{0} \u{1f600} \"/\\"),
        ),
        ("configmaps", ObjectKey::new("ns", "large"), json!({ "large": large })),
    ];
    for (resource, key, content) in shapes {
        let metadata = json!({"namespace": key.namespace, "name": key.name, "resourceVersion": "7"});
        let object = json!({"apiVersion": "v1", "kind": "K", "metadata": metadata, "content": content});
        let write = Write {
            resource: resource.into(),
            key: key.clone(),
            expect: Expect::Absent,
            change: Change::Put(object.clone()),
        };
        let answer = store.write(write).await.unwrap();
        let read = store.get(resource, &key).unwrap();
        assert_eq!((read.version, &read.json, &read.key), (answer.version, &answer.json, &key));
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = answer.version.to_string().into();
        assert_eq!(read.value(), expected);
    }
}

pub async fn what_could_not_be_read_again_is_refused(store: Store) {
    let nested = |levels: usize| {
        let mut write = put("deep", "1", Expect::Absent);
        let Change::Put(object) = &mut write.change else { panic!("a put") };
        object["spec"] = (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
        write
    };
    let refused = store.write(nested(120)).await;
    let Err(WriteError::Unavailable(Trouble::TooLarge(why))) = refused else { panic!("{refused:?}") };
    assert!(why.contains("nested 121 levels deep; at most 120"), "{why}");
    assert!(store.get(&kind(), &key("deep")).is_none());
    let stored = store.write(nested(119)).await.unwrap();
    assert_eq!(stored.value()["metadata"]["name"], "deep");
    assert_eq!(store.get(&kind(), &key("deep")).unwrap().json, stored.json);
}
