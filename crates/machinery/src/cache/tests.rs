//! The cache under writes, watches and lists that overtake each other.

use super::*;
use bowline_api::ConfigMap;

fn object(name: &str, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.metadata.resource_version = Some(version.to_string());
    object
}

#[test]
fn handlers_of_parts_that_ended_are_forgotten() {
    let cache = Cache::<ConfigMap>::default();
    for _ in 0..3 {
        let part = Arc::new(());
        let (lives, held) = (Arc::downgrade(&part), Arc::new(()));
        let freed = Arc::downgrade(&held);
        cache.on_change_while(move || lives.strong_count() > 0, move |_| drop(held.clone()));
        assert!(freed.upgrade().is_some());
        drop(part);
    }
    assert_eq!(cache.inner.handlers.lock().unwrap().len(), 1, "each new one finds the ones before it ended");
}

#[test]
fn a_handler_that_panics_costs_the_others_no_change() {
    let cache = Cache::<ConfigMap>::default();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    cache.on_change(|change| assert_ne!(change.latest().unwrap().version(), 2));
    cache.on_change(move |change| log.lock().unwrap().push(change.latest().unwrap().version()));
    let before = *cache.inner.changes.borrow();
    for version in 1..=3 {
        cache.applied(object("a", version));
    }
    assert_eq!(*heard.lock().unwrap(), [1, 2, 3]);
    assert_eq!(*cache.inner.changes.borrow() - before, 3, "those who wait for a condition look each time");
}

#[test]
fn a_noted_write_is_read_at_once_and_not_repeated_by_the_watch() {
    let cache = Cache::<ConfigMap>::default();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    cache.on_change(move |c| log.lock().unwrap().push(c.latest().unwrap().version()));
    cache.applied(object("a", 1));
    cache.note(object("a", 5));
    assert_eq!(cache.get(&ObjectKey::cluster("a")).unwrap().version(), 5);
    cache.applied(object("a", 3));
    cache.applied(object("a", 5));
    assert_eq!(*heard.lock().unwrap(), [1, 5]);
}

#[test]
fn a_late_note_does_not_bring_back_what_was_deleted() {
    let cache = Cache::<ConfigMap>::default();
    cache.applied(object("a", 1));
    cache.deleted(&object("a", 7));
    cache.note(object("a", 6));
    assert!(cache.list().is_empty());
}

/// A pod whose end came while the answer to its last status was taken in stayed in the cache for good.
#[test]
fn a_note_that_races_with_the_end_of_its_object_does_not_bring_it_back() {
    const ROUNDS: u64 = 20_000;
    let cache = Cache::<ConfigMap>::default();
    let barrier = std::sync::Barrier::new(2);
    let mut back = Vec::new();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 1..=ROUNDS {
                barrier.wait();
                cache.note(object("a", 3 * round + 1));
                barrier.wait();
            }
        });
        for round in 1..=ROUNDS {
            cache.applied(object("a", 3 * round));
            barrier.wait();
            cache.applied(object("a", 3 * round + 1));
            cache.deleted(&object("a", 3 * round + 2));
            barrier.wait();
            back.extend((!cache.list().is_empty()).then_some(round));
        }
    });
    assert_eq!(back, Vec::<u64>::new(), "rounds after which the object was there");
}

#[test]
fn what_we_deleted_stays_away_until_the_watch_agrees() {
    let cache = Cache::<ConfigMap>::default();
    let of = |uid: &str, version| {
        let mut object = object("a", version);
        object.metadata.uid = Some(uid.into());
        object
    };
    cache.applied(of("first", 1));
    cache.note_deletion(of("first", 1));
    assert!(cache.list().is_empty());
    cache.applied(of("first", 2));
    assert!(cache.list().is_empty(), "older news of a deleted object");
    cache.deleted(&of("first", 3));
    cache.applied(of("second", 4));
    assert_eq!(cache.list().len(), 1, "its successor is another object");
}

#[test]
fn the_end_of_a_predecessor_does_not_remove_a_noted_successor() {
    let cache = Cache::<ConfigMap>::default();
    cache.applied(object("a", 1));
    cache.note(object("a", 9));
    cache.deleted(&object("a", 7));
    assert_eq!(cache.get(&ObjectKey::cluster("a")).unwrap().version(), 9);
}

#[test]
fn a_list_removes_what_it_lacks_but_not_newer_writes() {
    let cache = Cache::<ConfigMap>::default();
    cache.applied(object("old", 1));
    cache.note(object("new", 9));
    assert!(cache.replaced(vec![object("kept", 4)], 5));
    let names: Vec<String> = cache.list().iter().map(|o| o.name().to_owned()).collect();
    assert_eq!(names, ["kept", "new"]);
}

/// A lagging API server answers a relist with what was true before the watch told of more (B2).
#[test]
fn a_list_older_than_what_was_seen_changes_nothing() {
    let cache = Cache::<ConfigMap>::default();
    assert!(cache.replaced(vec![object("a", 5)], 6));
    cache.applied(object("b", 9));
    cache.deleted(&object("a", 10));
    assert!(!cache.replaced(vec![object("a", 5)], 8), "refused");
    let names: Vec<String> = cache.list().iter().map(|o| o.name().to_owned()).collect();
    assert_eq!(names, ["b"], "`a` was deleted and `b` created after that list was made");
}

/// Created by us, deleted by somebody while there was no watch: the list says nothing of it, and is older than it seems.
#[test]
fn what_was_deleted_before_the_list_was_made_does_not_stay() {
    for late in [false, true] {
        let cache = Cache::<ConfigMap>::default();
        let ended = Arc::new(Mutex::new(Vec::new()));
        let log = ended.clone();
        cache.on_change(move |c| {
            let gone = c.old.iter().filter(|_| c.new.is_none());
            log.lock().unwrap().extend(gone.map(|o| o.name().to_owned()));
        });
        if !late {
            cache.note(object("ours", 100));
        }
        assert!(cache.replaced(vec![object("other", 40)], 40));
        if late {
            cache.note(object("ours", 100));
        }
        assert!(cache.get(&ObjectKey::cluster("ours")).is_some(), "it may be newer than the list");
        cache.applied(object("other", 5001));
        assert_eq!(cache.list().len(), 1, "the watch would have told of it; late: {late}");
        assert_eq!(*ended.lock().unwrap(), ["ours"]);
    }
}

/// Quiet kinds: no event of another object passes the version of our write, but bookmarks do.
#[test]
fn a_bookmark_or_a_list_passes_what_was_deleted_without_a_word() {
    let names =
        |cache: &Cache<ConfigMap>| cache.list().iter().map(|o| o.name().to_owned()).collect::<Vec<_>>();
    let cache = Cache::<ConfigMap>::default();
    cache.note(object("ours", 100));
    cache.passed(99);
    assert_eq!(names(&cache), ["ours"]);
    cache.passed(101);
    assert_eq!(names(&cache), Vec::<String>::new());
    assert!(!cache.replaced(vec![object("ours", 100)], 100), "older than the bookmark");
    cache.note(object("late", 103));
    assert!(cache.replaced(Vec::new(), 102));
    assert_eq!(names(&cache), ["late"], "written after the list was made");
    assert!(cache.replaced(Vec::new(), 103));
    assert_eq!(names(&cache), Vec::<String>::new());
}

#[test]
fn what_the_watch_has_yet_to_tell_of_stays() {
    let cache = Cache::<ConfigMap>::default();
    cache.applied(object("a", 90));
    cache.note(object("a", 100));
    cache.note(object("b", 102));
    cache.applied(object("a", 95));
    cache.applied(object("c", 98));
    cache.deleted(&object("c", 99));
    let names =
        |cache: &Cache<ConfigMap>| cache.list().iter().map(|o| o.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&cache), ["a", "b"]);
    cache.applied(object("a", 100));
    cache.applied(object("c", 101));
    assert_eq!(names(&cache), ["a", "b", "c"]);
    cache.applied(object("b", 102));
    cache.applied(object("c", 103));
    assert_eq!(names(&cache), ["a", "b", "c"]);
}

#[test]
fn an_index_follows_changes() {
    let cache = Cache::<ConfigMap>::default();
    cache.applied(object("a", 1));
    cache.index("version", |o| vec![o.version().to_string()]);
    assert_eq!(cache.indexed("version", "1").len(), 1);
    assert_eq!((cache.indexed_len("version", "1"), cache.indexed_len("none", "1")), (1, 0));
    cache.applied(object("a", 2));
    assert_eq!((cache.indexed("version", "1").len(), cache.indexed("version", "2").len()), (0, 1));
    cache.deleted(&object("a", 3));
    assert_eq!(cache.indexed("version", "2").len(), 0);
}
