//! The runner: everything that roles have in common.

use std::sync::Arc;

use super::{Context, Role, Step, Watches};
use crate::effect::EffectError;
use crate::lease::Leadership;
use crate::ports::{Ports, RunError};
use crate::queue::{Pool, Queue, Verdict};
use crate::told::REPEAT;

/// Steps of one pass; then other keys have their turn.
const STEPS_MAX: usize = 32;

/// Starts a role, waits until its caches are complete and works until `ports.stop`; finishes what is in flight.
pub async fn run<R: Role>(ports: Ports, settings: R::Settings) -> Result<(), RunError> {
    let (stop, leadership) = (ports.stop.clone(), ports.leadership.clone());
    let queue = Queue::without_backoff();
    queue.measure(ports.metrics.queue(R::NAME));
    let (failed, runs) = (queue.clone(), Arc::new(()));
    let lives = Arc::downgrade(&runs);
    ports.informers.on_recovery(move || {
        failed.retry_failed();
        lives.strong_count() > 0
    });
    let (shown, lives) = (queue.clone(), Arc::downgrade(&runs));
    ports.backlog.add(move || (lives.strong_count() > 0).then(|| shown.operations(R::NAME)));
    let starting = ports.starts.begin(R::NAME);
    let context = Context {
        effects: ports.effects(R::COMPONENT),
        recorder: ports.recorder(R::COMPONENT),
        queue: queue.clone(),
        ports,
    };
    let started = async {
        let role = Arc::new(R::start(context, settings).await?);
        let mut watches = Watches::new(&role, &queue);
        role.watch(&mut watches);
        watches.synced().await;
        role.begin().await?;
        Ok((role, watches))
    };
    let (role, watches) = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        lease = lost(leadership.as_ref()) => return Err(RunError::LeaseLost(lease)),
        role = started => role?,
    };
    starting.succeeded();
    queue.set_backoff(role.backoff());
    if let Some(leadership) = &leadership {
        // A standby has its caches filled and its keys queued, and goes on from here. What the leader before it did last may
        // be missing in its caches; it is not after a list that the store itself answered.
        let leading = async {
            leadership.acquired().await;
            watches.refreshed().await;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = leadership.lost() => return Err(RunError::LeaseLost(leadership.name().to_owned())),
            () = leading => {}
        }
    }
    tracing::info!(role = R::NAME, "started");
    // The queue outlives the role, since handlers of caches hold it: it must not keep the role.
    let (worker, pools, noting) = (role.clone(), Arc::downgrade(&role), queue.clone());
    let work = move |key: R::Key| {
        let (role, noting) = (worker.clone(), noting.clone());
        async move {
            let note = |error: &EffectError| {
                noting.note_failure(&key, key.to_string(), error.message.clone());
            };
            drive(&*role, &key, note).await
        }
    };
    let pool_of = move |key: &R::Key| match pools.upgrade() {
        Some(role) => role.pool(key),
        None => Pool::new("", R::WORKERS),
    };
    // When one ends early with an error, what is in flight is still finished.
    let (workers, ended) = (stop.child_token(), stop.child_token());
    // Also when `alongside` panics: a supervisor would start the role again beside passes that go on.
    let _guard = workers.clone().drop_guard();
    let beside = async {
        let end = tokio::select! {
            biased;
            () = ended.cancelled() => Ok(()),
            lease = lost(leadership.as_ref()) => Err(RunError::LeaseLost(lease)),
            end = role.alongside() => end,
        };
        workers.cancel();
        end
    };
    let (_, end) = tokio::join!(queue.run_pools(pool_of, workers.clone(), work), beside);
    role.finish().await;
    drop(runs);
    end
}

/// The name of the lease, once it is lost.
async fn lost(leadership: Option<&Leadership>) -> String {
    match leadership {
        Some(leadership) => {
            leadership.lost().await;
            leadership.name().to_owned()
        }
        None => std::future::pending().await,
    }
}

/// Drives one key until nothing is left to do, it has to wait, or an effect fails.
pub async fn reconcile<R: Role>(role: &R, key: &R::Key) -> Verdict {
    drive(role, key, |_| {}).await
}

/// The same; `note` hears of each failure.
async fn drive<R: Role>(role: &R, key: &R::Key, note: impl Fn(&EffectError) + Sync) -> Verdict {
    for _ in 0..STEPS_MAX {
        let seen = match look(role, key).await {
            Ok(Some(seen)) => seen,
            Ok(None) => return settled(role, key),
            Err(error) => return failed(role, key, &error, &note).await,
        };
        match R::decide(&seen) {
            Step::Do(action) => {
                tracing::debug!(role = R::NAME, %key, ?action, "decided");
                if let Err(error) = role.act(action, seen).await {
                    return failed(role, key, &error, &note).await;
                }
            }
            Step::Wait(why) => {
                tracing::debug!(role = R::NAME, %key, %why, "waiting");
                role.waiting(key, &seen, &why);
                // What people were told of a wait is told again, or their events would run out.
                return Verdict::After(role.look_again(key).unwrap_or(REPEAT));
            }
            Step::Fail(why) => {
                return failed(role, key, &EffectError::refused(why.to_string()), &note).await;
            }
            Step::Done => return settled(role, key),
        }
    }
    tracing::debug!(role = R::NAME, %key, steps = STEPS_MAX, "more to do");
    Verdict::Again
}

async fn look<R: Role>(role: &R, key: &R::Key) -> Result<Option<R::Observed>, EffectError> {
    role.prepare(key).await?;
    role.observe(key).await
}

fn settled<R: Role>(role: &R, key: &R::Key) -> Verdict {
    role.settled(key);
    role.look_again(key).map_or(Verdict::Done, Verdict::After)
}

async fn failed<R: Role>(
    role: &R,
    key: &R::Key,
    error: &EffectError,
    note: &(impl Fn(&EffectError) + Sync),
) -> Verdict {
    if error.conflict() {
        tracing::debug!(role = R::NAME, %key, "changed meanwhile, deciding again");
        return Verdict::Stale;
    }
    note(error);
    tracing::warn!(role = R::NAME, %key, %error, "failed, will try again");
    role.failed(key, error).await;
    Verdict::Retry
}
