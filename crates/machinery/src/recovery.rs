//! Tells queues when the API server answers again: keys that failed meanwhile need not wait for their back-off, which may
//! have grown to many minutes.

use std::sync::Arc;

use crate::listeners::Listeners;

/// Clones share the handlers.
#[derive(Clone, Default)]
pub(crate) struct Recovery(Arc<Listeners<()>>);

impl Recovery {
    /// The handler says whether it is still needed.
    pub(crate) fn on(&self, handler: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.add_while(move |()| handler());
    }

    pub(crate) fn tell(&self) {
        self.0.tell(&());
    }
}
