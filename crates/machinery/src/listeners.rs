//! Functions that are called on a change, in the order in which they were added.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// False when the part it belongs to has ended: it is then forgotten.
type Listener<T> = Box<dyn Fn(&T) -> bool + Send + Sync>;

/// Those who want to hear of a change, and are told what it concerns. They must be quick: usually they add a key to a queue.
pub struct Listeners<T: ?Sized>(Mutex<Vec<Listener<T>>>);

impl<T: ?Sized> Default for Listeners<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: ?Sized> Listeners<T> {
    pub fn add(&self, listener: impl Fn(&T) + Send + Sync + 'static) {
        self.add_while(move |what| {
            listener(what);
            true
        });
    }

    /// One that says each time whether it is still needed.
    pub fn add_while(&self, listener: impl Fn(&T) -> bool + Send + Sync + 'static) {
        self.all().push(Box::new(listener));
    }

    /// One that panics costs the others nothing: they hear of it as well.
    pub fn tell(&self, what: &T) {
        self.all().retain(|listener| {
            catch_unwind(AssertUnwindSafe(|| listener(what))).unwrap_or_else(|_| {
                tracing::error!("a listener panicked on a change, which is lost to it");
                true
            })
        });
    }

    fn all(&self) -> MutexGuard<'_, Vec<Listener<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_listener_that_panics_costs_the_others_no_call() {
        let (listeners, heard) = (Listeners::<str>::default(), Arc::new(AtomicUsize::new(0)));
        let counts = |heard: &Arc<AtomicUsize>| {
            let heard = heard.clone();
            move |_: &str| {
                heard.fetch_add(1, Ordering::SeqCst);
            }
        };
        listeners.add(counts(&heard));
        listeners.add(|what| assert_ne!(what, "bad"));
        listeners.add(counts(&heard));
        for (what, calls) in [("good", 2), ("bad", 4), ("good", 6)] {
            listeners.tell(what);
            assert_eq!(heard.load(Ordering::SeqCst), calls, "after {what}");
        }
        assert_eq!(listeners.all().len(), 3, "it is still there");
    }
}
