//! Tells queues when the API server answers again: keys that failed meanwhile need not wait for their back-off, which may
//! have grown to many minutes.

use std::sync::{Arc, Mutex, PoisonError};

type Handler = Box<dyn Fn() + Send + Sync>;

/// Clones share the handlers.
#[derive(Clone, Default)]
pub(crate) struct Recovery(Arc<Mutex<Vec<Handler>>>);

impl Recovery {
    pub(crate) fn on(&self, handler: impl Fn() + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(handler));
    }

    pub(crate) fn tell(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|handler| handler());
    }
}
