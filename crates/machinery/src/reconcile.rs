//! The shell of a keyed role: observe, decide, do one thing, look again.

use std::fmt::{Debug, Display};

use async_trait::async_trait;

use crate::effect::EffectError;
use crate::queue::Verdict;
use crate::role::Step;

/// More steps than any object needs; reaching it is a bug, not a state.
const STEPS_MAX: usize = 32;

/// A role that decides one object at a time.
#[async_trait]
pub trait Keyed: Send + Sync + 'static {
    type Key: Display + Send + Sync;
    type Observed: Send + Sync;
    type Action: Debug + Send;
    type Why: Display + Send;

    /// Upstream's name of the component.
    fn name(&self) -> &'static str;
    /// All that the decision needs; `None` when the object is gone and nothing is left to do.
    async fn observe(&self, key: &Self::Key) -> Result<Option<Self::Observed>, EffectError>;
    fn decide(&self, seen: &Self::Observed) -> Step<Self::Action, Self::Why>;
    /// Exactly one effect.
    async fn act(&self, action: Self::Action, seen: Self::Observed) -> Result<(), EffectError>;
    /// Tells whoever should know what is being waited for. Called by each pass that ends in a wait.
    fn waiting(&self, _key: &Self::Key, _seen: &Self::Observed, _why: &Self::Why) {}
    /// Tells whoever should know that an attempt failed (an event, a status).
    async fn failed(&self, _key: &Self::Key, _error: &EffectError) {}
}

/// Drives one object until nothing is left to do, it has to wait, or an effect fails.
pub async fn reconcile<R: Keyed>(role: &R, key: &R::Key) -> Verdict {
    for _ in 0..STEPS_MAX {
        let seen = match role.observe(key).await {
            Ok(Some(seen)) => seen,
            Ok(None) => return Verdict::Done,
            Err(error) => return failed(role, key, &error).await,
        };
        match role.decide(&seen) {
            Step::Do(action) => {
                tracing::debug!(role = role.name(), %key, ?action, "decided");
                if let Err(error) = role.act(action, seen).await {
                    return failed(role, key, &error).await;
                }
            }
            Step::Wait(why) => {
                tracing::debug!(role = role.name(), %key, %why, "waiting");
                role.waiting(key, &seen, &why);
                return Verdict::Done;
            }
            Step::Fail(why) => return failed(role, key, &EffectError::refused(why.to_string())).await,
            Step::Done => return Verdict::Done,
        }
    }
    Verdict::Again
}

async fn failed<R: Keyed>(role: &R, key: &R::Key, error: &EffectError) -> Verdict {
    if error.conflict() {
        tracing::debug!(role = role.name(), %key, "changed meanwhile, deciding again");
        return Verdict::Stale;
    }
    tracing::warn!(role = role.name(), %key, %error, "effect failed, will try again");
    role.failed(key, error).await;
    Verdict::Retry
}
