//! The runner with a role that counts: each key is a number to reach.

mod standby;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bowline_host::fake;
use http::{Request, Response};
use kube::client::Body;
use tokio_util::sync::CancellationToken;

use super::{Context, Role, Step, Watches, run};
use crate::client::in_process;
use crate::effect::EffectError;
use crate::journal::Journal;
use crate::ports::{Ports, RunError};
use crate::queue::Queue;

/// What the test sees of the role.
#[derive(Clone, Default)]
struct Seen {
    counts: Arc<Mutex<BTreeMap<u32, u32>>>,
    /// How often each key was prepared.
    prepared: Arc<Mutex<BTreeMap<u32, u32>>>,
    log: Arc<Mutex<Vec<String>>>,
    queue: Arc<Mutex<Option<Queue<u32>>>>,
    alongside: Arc<tokio::sync::Notify>,
}

impl Seen {
    fn say(&self, text: String) {
        self.log.lock().unwrap().push(text);
    }
    fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
    fn add(&self, key: u32) {
        self.queue.lock().unwrap().as_ref().unwrap().add(key);
    }
}

struct Counter(Seen);

/// Keys above this cannot be reached.
const TOO_MUCH: u32 = 1000;
/// A key that cannot be prepared.
const UNPREPARED: u32 = 999;

#[async_trait]
impl Role for Counter {
    const NAME: &'static str = "counter";
    const WORKERS: usize = 1;
    type Settings = Seen;
    type Key = u32;
    type Observed = (u32, u32);
    type Action = u32;
    type Why = String;

    async fn start(context: Context<u32>, seen: Seen) -> Result<Self, RunError> {
        *seen.queue.lock().unwrap() = Some(context.queue);
        Ok(Self(seen))
    }
    fn watch(&self, _: &mut Watches<Self>) {}
    async fn begin(&self) -> Result<(), RunError> {
        self.0.say("begin".into());
        Ok(())
    }
    async fn alongside(&self) -> Result<(), RunError> {
        self.0.alongside.notified().await;
        Err(RunError::Refused("the directory is gone".into()))
    }
    async fn prepare(&self, key: &u32) -> Result<(), EffectError> {
        if *key == UNPREPARED {
            return Err(EffectError::refused("cannot be read"));
        }
        *self.0.prepared.lock().unwrap().entry(*key).or_default() += 1;
        Ok(())
    }
    async fn observe(&self, key: &u32) -> Result<Option<(u32, u32)>, EffectError> {
        assert_ne!(*key, UNPREPARED, "looked at although it could not be prepared");
        Ok(Some((*key, self.0.counts.lock().unwrap().get(key).copied().unwrap_or(0))))
    }
    fn decide((key, count): &(u32, u32)) -> Step<u32, String> {
        match (*key, *count) {
            (key, _) if key > TOO_MUCH => Step::Fail(format!("{key} is too much")),
            (0, _) => Step::Wait("a number".into()),
            (key, count) if count < key => Step::Do(count + 1),
            _ => Step::Done,
        }
    }
    async fn act(&self, count: u32, (key, _): (u32, u32)) -> Result<(), EffectError> {
        self.0.counts.lock().unwrap().insert(key, count);
        Ok(())
    }
    fn waiting(&self, _: &u32, _: &(u32, u32), why: &String) {
        self.0.say(format!("waits for {why}"));
    }
    async fn failed(&self, _: &u32, error: &EffectError) {
        self.0.say(error.to_string());
    }
    fn settled(&self, key: &u32) {
        self.0.say(format!("{key} settled"));
    }
    fn look_again(&self, key: &u32) -> Option<Duration> {
        (*key == 0).then_some(Duration::from_secs(60))
    }
}

/// A role in an otherwise empty world.
fn start(seen: &Seen) -> (CancellationToken, tokio::task::JoinHandle<Result<(), RunError>>) {
    let stop = CancellationToken::new();
    let answer = |_: Request<Body>| async { Ok::<_, std::io::Error>(Response::new(Body::empty())) };
    let (host, _) = fake::host(1);
    let ports = Ports::new(in_process(tower::service_fn(answer)), host, Journal::default(), stop.clone());
    (stop, tokio::spawn(run::<Counter>(ports, seen.clone())))
}

async fn a_while() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_settles_however_many_steps_it_takes() {
    let seen = Seen::default();
    let (stop, task) = start(&seen);
    a_while().await;
    seen.add(500);
    seen.add(1);
    a_while().await;
    assert_eq!(
        seen.said(),
        ["begin", "1 settled", "500 settled"],
        "a short piece of work does not wait for a long one"
    );
    stop.cancel();
    assert!(task.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_is_said_and_tried_again_with_back_off() {
    let seen = Seen::default();
    let (stop, _task) = start(&seen);
    a_while().await;
    seen.add(TOO_MUCH + 1);
    a_while().await;
    assert_eq!(seen.said(), ["begin", "1001 is too much"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let tries = seen.said().len();
    assert!((5..20).contains(&tries), "each pause is twice as long as the one before: {tries}");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_and_looked_at_again() {
    let seen = Seen::default();
    let (stop, _task) = start(&seen);
    a_while().await;
    seen.add(0);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(seen.said(), ["begin", "waits for a number", "waits for a number"]);
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_prepared_before_each_look_and_not_looked_at_when_that_fails() {
    let seen = Seen::default();
    let (stop, _task) = start(&seen);
    a_while().await;
    seen.add(3);
    seen.add(UNPREPARED);
    a_while().await;
    assert_eq!(seen.said(), ["begin", "3 settled", "cannot be read"]);
    let prepared = seen.prepared.lock().unwrap().clone();
    assert_eq!(prepared, BTreeMap::from([(3, 4)]), "three steps, and the look that finds nothing left to do");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_role_ends_with_what_runs_alongside() {
    let seen = Seen::default();
    let (_stop, task) = start(&seen);
    a_while().await;
    seen.alongside.notify_one();
    assert_eq!(task.await.unwrap().unwrap_err().to_string(), "the directory is gone");
}

/// Caches and their handlers outlive a role: they must not keep it, its memory or its connections.
#[tokio::test(start_paused = true)]
async fn a_role_is_freed_when_it_has_ended() {
    let seen = Seen::default();
    let (stop, task) = start(&seen);
    a_while().await;
    [3, 0, TOO_MUCH + 1].into_iter().for_each(|key| seen.add(key));
    a_while().await;
    assert!(Arc::strong_count(&seen.counts) > 1, "the role holds it");
    stop.cancel();
    task.await.unwrap().unwrap();
    // Timers of keys that wait or back off hold the queue, not the role.
    assert_eq!(Arc::strong_count(&seen.counts), 1, "nothing holds the role");
}
