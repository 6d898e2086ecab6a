//! The queue on paused time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Backoff, Pool, Queue, Verdict};

#[tokio::test(start_paused = true)]
async fn one_key_is_never_worked_on_twice_at_once() {
    let queue = Queue::new(Backoff::VOLUME);
    let (running, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let stop = CancellationToken::new();
    let (running_in, runs_in) = (running.clone(), runs.clone());
    let worker = queue.clone();
    let ended = stop.clone();
    let task = tokio::spawn(async move {
        let work = move |_: &str| {
            let (running, runs) = (running_in.clone(), runs_in.clone());
            async move {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                tokio::time::sleep(Duration::from_secs(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                runs.fetch_add(1, Ordering::SeqCst);
                Verdict::Done
            }
        };
        worker.run(4, ended, work).await;
    });
    for _ in 0..3 {
        queue.add("a");
        tokio::task::yield_now().await;
    }
    assert_eq!(queue.depth(), 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 2, "once, and once more for what came meanwhile");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_success_forgets() {
    let queue = Queue::new(Backoff { start: Duration::from_secs(1), max: Duration::from_secs(3) });
    let stop = CancellationToken::new();
    let times = Arc::new(Mutex::new(Vec::new()));
    let (log, ended, worker) = (times.clone(), stop.clone(), queue.clone());
    let begin = Instant::now();
    let task = tokio::spawn(async move {
        let work = move |_: u8| {
            let log = log.clone();
            async move {
                let mut log = log.lock().unwrap();
                log.push(begin.elapsed().as_secs());
                if log.len() < 5 { Verdict::Retry } else { Verdict::Done }
            }
        };
        worker.run(1, ended, work).await;
    });
    queue.add(1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*times.lock().unwrap(), [0, 1, 3, 6, 9]);
    assert_eq!(queue.failures(&1), 0);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waking_a_key_that_fails_does_not_make_it_fail_more_often_for_ever() {
    let queue = Queue::new(Backoff { start: Duration::from_secs(1), max: Duration::from_secs(100) });
    let stop = CancellationToken::new();
    let passes = Arc::new(AtomicUsize::new(0));
    let (count, ended, worker) = (passes.clone(), stop.clone(), queue.clone());
    let task = tokio::spawn(async move {
        let work = move |_: u8| {
            count.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Verdict::Retry)
        };
        worker.run(1, ended, work).await;
    });
    for _ in 0..6 {
        queue.add(1);
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let woken = passes.swap(0, Ordering::SeqCst);
    assert!(woken >= 6, "each wake-up is a pass: {woken}");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let alone = passes.load(Ordering::SeqCst);
    assert!((36..=37).contains(&alone), "one every hundred seconds: {alone}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_plans_the_earlier_one_counts() {
    let queue = Queue::new(Backoff::VOLUME);
    queue.look_again(1, Duration::from_secs(10));
    queue.look_again(1, Duration::from_secs(5));
    queue.look_again(1, Duration::from_secs(20));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(queue.take().map(|(key, _)| key), Some(1));
    queue.finish(1, Verdict::Done);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(queue.take().is_none());
}

/// Works on `u8` keys with `work` until the test ends.
fn start<F>(queue: &Queue<u8>, pool_of: fn(&u8) -> Pool, work: F) -> CancellationToken
where
    F: Fn(u8) -> futures::future::BoxFuture<'static, Verdict> + Send + Sync + 'static,
{
    let (stop, worker) = (CancellationToken::new(), queue.clone());
    let ended = stop.clone();
    tokio::spawn(async move { worker.run_pools(pool_of, ended, work).await });
    stop
}

fn one_pool(_: &u8) -> Pool {
    Pool::new("", 1)
}

#[tokio::test(start_paused = true)]
async fn a_panic_concerns_one_key_and_is_tried_again() {
    let queue = Queue::new(Backoff::VOLUME);
    let passes = Arc::new(AtomicUsize::new(0));
    let count = passes.clone();
    let stop = start(&queue, one_pool, move |key| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!(key == 1 && first), "a bug");
        Box::pin(std::future::ready(Verdict::Done))
    });
    queue.add(1);
    queue.add(2);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(passes.load(Ordering::SeqCst), 2, "the other key goes on");
    assert_eq!(queue.failures(&1), 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(passes.load(Ordering::SeqCst), 3);
    assert_eq!(queue.depth(), 0);
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_during_a_failing_pass_still_backs_off() {
    let queue = Queue::new(Backoff { start: Duration::from_secs(1), max: Duration::from_secs(300) });
    let passes = Arc::new(AtomicUsize::new(0));
    let (count, wake) = (passes.clone(), queue.clone());
    let stop = start(&queue, one_pool, move |key| {
        count.fetch_add(1, Ordering::SeqCst);
        wake.add(key);
        Box::pin(std::future::ready(Verdict::Retry))
    });
    queue.add(1);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let passes = passes.load(Ordering::SeqCst);
    assert!((300..=400).contains(&passes), "one every ten seconds: {passes}");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_workers_are_all_stuck_holds_up_no_other() {
    let queue = Queue::new(Backoff::VOLUME);
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let pool_of = |key: &u8| Pool::new(if *key < 100 { "stuck" } else { "sound" }, 2);
    // Before work begins no pool is known.
    (0..10).chain(100..105).for_each(|key| queue.add(key));
    let stop = start(&queue, pool_of, move |key| {
        let count = count.clone();
        Box::pin(async move {
            if key < 100 {
                std::future::pending::<()>().await;
            }
            count.fetch_add(1, Ordering::SeqCst);
            Verdict::Done
        })
    });
    (105..110).for_each(|key| queue.add(key));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(done.load(Ordering::SeqCst), 10);
    assert_eq!(queue.depth(), 10, "two are being worked on, eight wait");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn the_backlog_of_each_pool_is_visible() {
    let queue = Queue::new(Backoff::VOLUME);
    let noting = queue.clone();
    let pool_of = |key: &u8| Pool::new(if *key < 100 { "stuck" } else { "failing" }, 2);
    let stop = start(&queue, pool_of, move |key| {
        let noting = noting.clone();
        Box::pin(async move {
            if key < 100 {
                std::future::pending::<()>().await;
            }
            noting.note_failure(&key, format!("object {key}"), "no room".into());
            Verdict::Retry
        })
    });
    (0..5).chain([100]).for_each(|key| queue.add(key));
    tokio::time::sleep(Duration::from_millis(400)).await;
    let shown = queue.operations("role");
    let pools: Vec<_> =
        shown.iter().map(|one| (one.operation.as_str(), one.depth, one.in_flight, one.failing)).collect();
    assert_eq!(pools, [("failing", 0, 0, 1), ("stuck", 3, 2, 0)]);
    assert!(shown.iter().all(|one| one.controller == "role"));
    let error = shown[0].last_error.clone().expect("an error");
    assert_eq!((error.object.as_str(), error.message.as_str()), ("object 100", "no room"));
    assert!((0.39..0.41).contains(&error.seconds_ago), "{error:?}");
    assert!(
        (0.39..0.41).contains(&shown[1].oldest_seconds) && (0.39..0.41).contains(&shown[1].longest_seconds)
    );
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_long_piece_of_work_gives_way_to_others_and_settles() {
    let queue = Queue::new(Backoff::VOLUME);
    let order = Arc::new(Mutex::new(Vec::new()));
    let log = order.clone();
    queue.add(1);
    queue.add(2);
    let stop = start(&queue, one_pool, move |key| {
        let mut log = log.lock().unwrap();
        log.push(key);
        let more = key == 1 && log.len() < 5;
        Box::pin(std::future::ready(if more { Verdict::Again } else { Verdict::Done }))
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*order.lock().unwrap(), [1, 2, 1, 1, 1]);
    assert_eq!(queue.failures(&1), 0);
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn work_that_never_settles_backs_off() {
    let queue = Queue::new(Backoff { start: Duration::from_secs(1), max: Duration::from_secs(100) });
    let passes = Arc::new(AtomicUsize::new(0));
    let count = passes.clone();
    let stop = start(&queue, one_pool, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Verdict::Again))
    });
    queue.add(1);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let passes = passes.load(Ordering::SeqCst);
    assert!(passes < 100, "it backs off: {passes}");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_measured_as_upstream_measures_its_own() {
    let metrics = crate::Metrics::new(jiff::Timestamp::UNIX_EPOCH);
    let queue = Queue::new(Backoff { start: Duration::from_secs(1), max: Duration::from_secs(1) });
    queue.measure(metrics.queue("claims"));
    let stop = CancellationToken::new();
    for key in ["a", "b", "b"] {
        queue.add(key);
    }
    let line = |name: &str, value: &str| {
        let line = format!("workqueue_{name}{{name=\"claims\"}} {value}\n");
        assert!(metrics.text().contains(&line), "{line} in {}", metrics.text());
    };
    line("depth", "2");
    line("adds_total", "2");
    let (worker, again, ended) = (queue.clone(), queue.clone(), stop.clone());
    let failed = Arc::new(AtomicUsize::new(0));
    let task = tokio::spawn(async move {
        let work = move |key: &'static str| {
            let (queue, failed) = (again.clone(), failed.clone());
            async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                match key {
                    "a" if failed.fetch_add(1, Ordering::SeqCst) == 0 => Verdict::Retry,
                    "b" if queue.failures(&"b") == 0 && failed.load(Ordering::SeqCst) < 2 => {
                        // Twice while it is worked on: upstream counts one.
                        queue.add("b");
                        queue.add("b");
                        failed.fetch_add(10, Ordering::SeqCst);
                        Verdict::Done
                    }
                    _ => Verdict::Done,
                }
            }
        };
        worker.run(1, ended, work).await;
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    line("depth", "1");
    line("unfinished_work_seconds", "1");
    line("longest_running_processor_seconds", "1");
    tokio::time::sleep(Duration::from_secs(20)).await;
    line("depth", "0");
    line("adds_total", "4");
    line("retries_total", "1");
    line("work_duration_seconds_count", "4");
    line("queue_duration_seconds_count", "4");
    line("unfinished_work_seconds", "0");
    stop.cancel();
    task.await.unwrap();
}

/// A back-off may have grown to many minutes while the API server was away.
#[tokio::test(start_paused = true)]
async fn failed_keys_are_tried_at_once_when_asked_to_and_their_failures_count_on() {
    let queue = Queue::new(Backoff { start: Duration::from_secs(100), max: Duration::from_secs(1000) });
    let stop = CancellationToken::new();
    let times = Arc::new(Mutex::new(Vec::new()));
    let (log, ended, worker) = (times.clone(), stop.clone(), queue.clone());
    let begin = Instant::now();
    let task = tokio::spawn(async move {
        let work = move |key: u8| {
            let log = log.clone();
            async move {
                log.lock().unwrap().push((key, begin.elapsed().as_secs()));
                if key == 1 { Verdict::Retry } else { Verdict::Done }
            }
        };
        worker.run(1, ended, work).await;
    });
    queue.add(1);
    queue.add(2);
    tokio::time::sleep(Duration::from_secs(10)).await;
    queue.retry_failed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*times.lock().unwrap(), [(1, 0), (2, 0), (1, 10)]);
    assert_eq!(queue.failures(&1), 2, "it backs off as before if it was not the server");
    stop.cancel();
    task.await.unwrap();
}
