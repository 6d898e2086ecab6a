//! The role: two watches. Upstream's flags are about its own back-off.

use async_trait::async_trait;
use bowline_api::{Meta, Namespace, ServiceAccount};
use bowline_machinery::{Cache, Context, EffectError, Effects, Role, RunError, Step, Watches};

use super::decide::decide;
use super::model::{Action, NAME, Observed, Why};

pub struct Accounts {
    pub(super) namespaces: Cache<Namespace>,
    pub(super) accounts: Cache<ServiceAccount>,
    pub(super) effects: Effects,
}

#[async_trait]
impl Role for Accounts {
    const NAME: &'static str = "serviceaccount-controller";
    const WORKERS: usize = 8;
    type Settings = ();
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, _: ()) -> Result<Self, RunError> {
        let informers = &context.ports.informers;
        Ok(Self { namespaces: informers.of(), accounts: informers.of(), effects: context.effects })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.namespaces, |_, change, queue| {
            change.new.iter().for_each(|namespace| queue.add(namespace.name().to_owned()));
        });
        watches.on(&self.accounts, |_, change, queue| {
            // Only one that went makes work.
            let gone = change.old.as_ref().filter(|account| change.new.is_none() && account.name() == NAME);
            gone.iter().for_each(|account| queue.add(account.namespace().to_owned()));
        });
    }
    async fn observe(&self, name: &String) -> Result<Option<Observed>, EffectError> {
        Ok(self.see(name))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
}
