//! The runner: everything that roles have in common.

use std::sync::Arc;

use super::{Context, Role, Step, Watches};
use crate::effect::EffectError;
use crate::ports::{Ports, RunError};
use crate::queue::{Queue, Verdict};

/// Steps of one pass; then other keys have their turn.
const STEPS_MAX: usize = 32;

/// Starts a role, waits until its caches are complete and works until `ports.stop`; finishes what is in flight.
pub async fn run<R: Role>(ports: Ports, settings: R::Settings) -> Result<(), RunError> {
    let stop = ports.stop.clone();
    let queue = Queue::without_backoff();
    let context = Context {
        effects: ports.effects(R::NAME),
        recorder: ports.recorder(R::NAME),
        queue: queue.clone(),
        ports,
    };
    let started = async {
        let role = Arc::new(R::start(context, settings).await?);
        let mut watches = Watches::new(&role, &queue);
        role.watch(&mut watches);
        watches.synced().await;
        role.begin().await?;
        Ok(role)
    };
    let role = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        role = started => role?,
    };
    queue.set_backoff(role.backoff());
    tracing::info!(role = R::NAME, "started");
    let (worker, pools) = (role.clone(), role.clone());
    let work = move |key: R::Key| {
        let role = worker.clone();
        async move { reconcile(&*role, &key).await }
    };
    // When one ends early with an error, what is in flight is still finished.
    let (workers, ended) = (stop.child_token(), stop.child_token());
    let beside = async {
        let end = tokio::select! {
            biased;
            () = ended.cancelled() => Ok(()),
            end = role.alongside() => end,
        };
        workers.cancel();
        end
    };
    let (_, end) = tokio::join!(queue.run_pools(move |key| pools.pool(key), workers.clone(), work), beside);
    role.finish().await;
    end
}

/// Drives one key until nothing is left to do, it has to wait, or an effect fails.
pub async fn reconcile<R: Role>(role: &R, key: &R::Key) -> Verdict {
    for _ in 0..STEPS_MAX {
        let seen = match role.observe(key).await {
            Ok(Some(seen)) => seen,
            Ok(None) => return settled(role, key),
            Err(error) => return failed(role, key, &error).await,
        };
        match R::decide(&seen) {
            Step::Do(action) => {
                tracing::debug!(role = R::NAME, %key, ?action, "decided");
                if let Err(error) = role.act(action, seen).await {
                    return failed(role, key, &error).await;
                }
            }
            Step::Wait(why) => {
                tracing::debug!(role = R::NAME, %key, %why, "waiting");
                role.waiting(key, &seen, &why);
                return role.look_again(key).map_or(Verdict::Done, Verdict::After);
            }
            Step::Fail(why) => return failed(role, key, &EffectError::refused(why.to_string())).await,
            Step::Done => return settled(role, key),
        }
    }
    tracing::debug!(role = R::NAME, %key, steps = STEPS_MAX, "more to do");
    Verdict::Again
}

fn settled<R: Role>(role: &R, key: &R::Key) -> Verdict {
    role.settled(key);
    role.look_again(key).map_or(Verdict::Done, Verdict::After)
}

async fn failed<R: Role>(role: &R, key: &R::Key, error: &EffectError) -> Verdict {
    if error.conflict() {
        tracing::debug!(role = R::NAME, %key, "changed meanwhile, deciding again");
        return Verdict::Stale;
    }
    tracing::warn!(role = R::NAME, %key, %error, "failed, will try again");
    role.failed(key, error).await;
    Verdict::Retry
}
