//! The shape of a role: what it watches, observes, decides and does. `run` drives it.
//!
//! A role decides one key at a time: prepare, observe, decide, do one thing, look again. Each gap between two effects is
//! thereby a state that anyone can see, and a crash there loses nothing.

mod run;
#[cfg(test)]
mod tests;
mod watches;

use std::fmt::{Debug, Display};
use std::time::Duration;

use async_trait::async_trait;

use crate::effect::{EffectError, Effects};
use crate::events::Recorder;
use crate::ports::{Ports, RunError};
use crate::queue::{Backoff, Pool, Queue};

pub use run::{reconcile, run};
pub use watches::Watches;

/// What a decision comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<A, W> {
    /// Do this one thing, then decide again.
    Do(A),
    /// Nothing can be done until something else changes; why is for people.
    Wait(W),
    /// It cannot be done as things are; people are told why and it is tried again with back-off.
    Fail(W),
    /// Nothing is left to do.
    Done,
}

/// What the runner gives a role: the outside world, and the queue that wakes it.
pub struct Context<K> {
    pub ports: Ports,
    /// Effects under the role's name, each refused once the lease is lost.
    pub effects: Effects,
    /// Events under the role's name.
    pub recorder: Recorder,
    /// Adds keys to look at.
    pub queue: Queue<K>,
}

/// A role, under the name that upstream gives it.
#[async_trait]
pub trait Role: Send + Sync + Sized + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;
    /// Upstream's name of the program or controller: in events, failpoints and the journal.
    const COMPONENT: &'static str = Self::NAME;
    /// Keys worked on at once, unless `pool` says otherwise.
    const WORKERS: usize;

    /// Flags, or what the roles of one program share.
    type Settings: Send;
    type Key: Ord + Clone + Debug + Display + Send + Sync + 'static;
    /// Plain data: all that a decision needs.
    type Observed: Send + Sync;
    type Action: Debug + Send;
    type Why: Display + Send;

    /// Makes the role. Asks for caches here, so that they fill while it waits for anything else.
    async fn start(context: Context<Self::Key>, settings: Self::Settings) -> Result<Self, RunError>;

    /// Says which kinds are watched, and which keys a change concerns.
    fn watch(&self, watches: &mut Watches<Self>);

    /// Looks around once the caches are complete and before the first key: what an earlier process left.
    async fn begin(&self) -> Result<(), RunError> {
        Ok(())
    }

    /// Runs beside the work on keys, for what is no cache of a kind: a directory that is watched, a timer.
    async fn alongside(&self) -> Result<(), RunError> {
        std::future::pending().await
    }

    /// Brings what the role itself remembers up to date, before each `observe`: what is wanted and since when, which objects
    /// are followed, what is read because it may not be watched. Nothing outside this process changes.
    async fn prepare(&self, _key: &Self::Key) -> Result<(), EffectError> {
        Ok(())
    }

    /// All that the decision needs; `None` when the object is gone and nothing is left to do. It only reads: no memory, cache,
    /// queue or event is written (xtask checks `observe.rs`).
    async fn observe(&self, key: &Self::Key) -> Result<Option<Self::Observed>, EffectError>;

    /// Pure: no clock, no memory, no outside world.
    fn decide(seen: &Self::Observed) -> Step<Self::Action, Self::Why>;

    /// Exactly one effect.
    async fn act(&self, action: Self::Action, seen: Self::Observed) -> Result<(), EffectError>;

    /// Tells people what is being waited for. Called by each pass that ends in a wait.
    fn waiting(&self, _key: &Self::Key, _seen: &Self::Observed, _why: &Self::Why) {}

    /// Tells people that an attempt failed (an event, a status).
    async fn failed(&self, _key: &Self::Key, _error: &EffectError) {}

    /// Nothing is left to do for this key, or it is gone: what was remembered about it can be forgotten.
    fn settled(&self, _key: &Self::Key) {}

    /// When a key that waits or is settled is looked at again although nothing changes.
    fn look_again(&self, _key: &Self::Key) -> Option<Duration> {
        None
    }

    /// The workers that this key may use: a driver that is stuck must not hold up another one's volumes.
    fn pool(&self, _key: &Self::Key) -> Pool {
        Pool::new("", Self::WORKERS)
    }

    /// Says the last word, after the work on all keys has ended.
    async fn finish(&self) {}

    /// Pauses between two attempts at one key.
    fn backoff(&self) -> Backoff {
        Backoff::CONTROLLER
    }
}
