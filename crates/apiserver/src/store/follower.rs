//! A second server's view of a store: writes go to the leader, and what happens there becomes visible here later.
//!
//! For simulations of several servers on one store; with real ones the [`super::etcd`] feed does the same.

use std::sync::Arc;

use super::backend::Record;
use super::draft::{Draft, Slot};
use super::errors::WriteError;
use super::object::Stored;
use super::state::Shared;
use super::{Store, Write};

/// Where a follower's writes go.
pub struct Follower {
    leader: Store,
    shared: Arc<Shared>,
}

/// Brings to a follower what its leader has made durable.
pub struct Feed {
    shared: Arc<Shared>,
}

impl Follower {
    pub fn new(leader: Store, shared: Arc<Shared>) -> Self {
        Self { leader, shared }
    }

    /// Returns once it is visible here, as with etcd.
    pub async fn write(&self, write: Write) -> Result<Arc<Stored>, WriteError> {
        let (resource, key) = (write.resource.clone(), write.key.clone());
        match Box::pin(self.leader.commit(write)).await {
            Ok(stored) => {
                self.shared.reached(stored.version).await;
                Ok(stored)
            }
            Err(WriteError::Conflict { .. }) => {
                self.fresh().await;
                Err(WriteError::Conflict { current: self.shared.read().object(&resource, &key) })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns once everything that was written before this call is visible here.
    pub async fn fresh(&self) {
        self.shared.reached(self.leader.version()).await;
    }
}

impl Feed {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Makes one batch of the leader visible; batches come in its order.
    pub fn publish(&self, records: &[Record], version: u64) -> Result<(), String> {
        let mut draft = Draft::new(&self.shared);
        for record in records {
            let slot: Slot = (record.resource.clone(), record.key.clone());
            let current = draft.current(&slot);
            let new = record.json.as_ref().map(|json| serde_json::from_slice(json)).transpose();
            let new = new.map_err(|error| format!("{}: {error}", record.key))?;
            let event = Draft::event(current, &slot.1, new, record.version)?;
            draft.add(slot, event);
        }
        self.shared.publish(draft.finish(), version);
        Ok(())
    }
}
