//! One suite for every kind of store, and what is special about each.

mod backups;
mod crash;
mod etcd;
mod expiry;
mod files;
mod full;
mod losses;
mod sequencing;
mod servers;
mod suite;
mod torn;
mod watchers;

use serde_json::json;

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn kind() -> Arc<str> {
    "widgets.example.com".into()
}

fn object(name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"namespace": "ns", "name": name, "labels": {"data": data}}, "data": data,
    })
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

fn names(store: &Store) -> Vec<String> {
    listed(store, None).into_iter().map(|(name, _)| name).collect()
}

/// Waits for something that other tasks bring about.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("not within 30 s: {what}");
}

/// Where a store of the suite is kept.
enum Kept {
    Memory,
    File,
    Etcd,
}

/// Runs a test of the suite on a new store.
fn run<F: Future<Output = ()>>(kept: Kept, test: impl Fn(Store) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match kept {
            Kept::Memory => test(Store::memory()).await,
            Kept::File => {
                let dir = tempfile::tempdir().unwrap();
                test(Store::open_file(dir.path()).unwrap()).await;
            }
            Kept::Etcd => test(etcd::cluster::shared().store(Options::default()).await).await,
        }
    });
}

macro_rules! on_every_store {
    ($($test:ident)*) => {
        mod in_memory {
            $(#[test] fn $test() { super::run(super::Kept::Memory, super::suite::$test) })*
        }
        mod on_file {
            $(#[test] fn $test() { super::run(super::Kept::File, super::suite::$test) })*
        }
        mod on_etcd {
            $(#[test] fn $test() { super::run(super::Kept::Etcd, super::suite::$test) })*
        }
    };
}

on_every_store! {
    versions_grow_and_comparisons_hold
    a_watch_replays_everything_after_its_version_once_and_in_order
    a_bookmark_never_passes_an_event
    pages_show_one_version
    waiting_for_a_version
    sixty_four_writers_lose_nothing
    one_object_counts_every_writer
    objects_of_every_shape_come_back_as_they_were
    what_could_not_be_read_again_is_refused
}
