//! The role: two watches. Upstream's flag names a file; here the certificate itself is handed over.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_api::{ConfigMap, Meta, Namespace};
use bowline_machinery::{Cache, Context, EffectError, Effects, Role, RunError, Step, Watches};

use super::decide::decide;
use super::model::{Action, NAME, Observed, Why};

pub struct Publisher {
    pub(super) namespaces: Cache<Namespace>,
    pub(super) maps: Cache<ConfigMap>,
    pub(super) root: Arc<str>,
    pub(super) effects: Effects,
}

#[async_trait]
impl Role for Publisher {
    const NAME: &'static str = "root-ca-certificate-publisher-controller";
    const WORKERS: usize = 8;
    /// The authority's certificate, PEM.
    type Settings = String;
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, root: String) -> Result<Self, RunError> {
        let informers = &context.ports.informers;
        Ok(Self {
            namespaces: informers.of(),
            maps: informers.of(),
            root: root.into(),
            effects: context.effects,
        })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.namespaces, |_, change, queue| {
            change.new.iter().for_each(|namespace| queue.add(namespace.name().to_owned()));
        });
        watches.on(&self.maps, |_, change, queue| {
            let ours = change.latest().filter(|map| map.name() == NAME);
            ours.iter().for_each(|map| queue.add(map.namespace().to_owned()));
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
