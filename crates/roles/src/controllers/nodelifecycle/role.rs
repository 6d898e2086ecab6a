//! The role: one watch.

use async_trait::async_trait;
use bowline_api::{Meta, Node};
use bowline_machinery::{Cache, Context, EffectError, Effects, Role, RunError, Step, Watches};

use super::decide::decide;
use super::model::{Action, Observed, Why};

pub struct Lifecycle {
    pub(super) nodes: Cache<Node>,
    pub(super) effects: Effects,
}

#[async_trait]
impl Role for Lifecycle {
    const NAME: &'static str = "node-lifecycle-controller";
    const WORKERS: usize = 8;
    type Settings = ();
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, _: ()) -> Result<Self, RunError> {
        Ok(Self { nodes: context.ports.informers.of(), effects: context.effects })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.nodes, |_, change, queue| {
            change.new.iter().for_each(|node| queue.add(node.name().to_owned()));
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
