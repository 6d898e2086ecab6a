//! A thousand watchers that do not read: they are told so, and memory stays bounded.

use std::process::Command;

use super::*;

const CHILD: &str = "BOWLINE_STORE_WATCHERS";
const WATCHERS: usize = 1_000;
const OBJECT_BYTES: usize = 10_000;
const WRITES: usize = 10_000;
/// The log keeps 8 MB of 100 MB that are written; each watcher alone would hold as much if it had a queue.
const LOG_BYTES: usize = 8 << 20;
const GROWTH_MAX: u64 = 64 << 20;

/// In a process of its own, because memory is counted by process.
#[test]
fn slow_watchers_take_no_memory() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::watchers::child", "--nocapture"])
        .env(CHILD, "1")
        .status();
    assert!(status.unwrap().success());
}

/// Peak of resident memory.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn child() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = Store::memory_with(Limits { log_bytes: LOG_BYTES, ..Limits::default() });
        let filler = "x".repeat(OBJECT_BYTES);
        let mut version = store.write(put("a", &filler, Expect::Absent)).await.unwrap().version;
        let mut watchers: Vec<_> = (0..WATCHERS).map(|_| store.watch(&kind(), version).unwrap()).collect();
        let mut quick = store.watch(&kind(), version).unwrap();
        // Some have taken a batch and are busy with it.
        for _ in 0..300 {
            version = store.write(put("a", &filler, Expect::Version(version))).await.unwrap().version;
        }
        let before = peak();
        let held: Vec<_> = watchers.iter_mut().step_by(2).map(|watcher| watcher.ready().unwrap()).collect();
        let most = held.iter().map(Vec::len).max().unwrap();
        assert!(most <= 150, "a batch is bounded by its bytes, too: {most}");
        let mut seen = quick.ready().unwrap().len();
        for _ in 300..WRITES {
            version = store.write(put("a", &filler, Expect::Version(version))).await.unwrap().version;
            seen += quick.ready().unwrap().len();
        }
        seen += quick.ready().unwrap().len();
        assert_eq!(seen, WRITES, "one that reads misses nothing");
        let growth = peak() - before;
        println!("{WATCHERS} watchers, {WRITES} writes of {OBJECT_BYTES} bytes: {} MB more", growth >> 20);
        assert!(growth < GROWTH_MAX, "grew by {growth}");
        for watcher in &mut watchers {
            assert!(watcher.ready().is_err(), "a watcher that fell behind is told so");
        }
        drop(held);
    });
}
