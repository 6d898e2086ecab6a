//! Throws away old revisions, one server for all: every interval the one that is first does it.
//!
//! The key is upstream's and not below the prefix: old revisions belong to the whole of etcd, so whoever else uses it
//! this way takes part.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::etcd::{PutRequest, TxnRequest};
use bytes::Bytes;

use super::client::{Client, revision, signed};
use super::failure::Failure;
use super::transaction;

const KEY: &[u8] = b"compact_rev_key";

/// What is known of the last round.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// How often the key was written.
    pub turn: i64,
    /// The revision of etcd then: what is older may go, one interval later.
    revision: u64,
}

/// Runs until it is dropped.
pub async fn run(client: Arc<Client>, interval: Duration) {
    let mut round = Round::default();
    let mut timer = tokio::time::interval(interval);
    loop {
        timer.tick().await;
        match compact(&client, round).await {
            Ok(next) => round = next,
            // The next round takes this one's work along.
            Err(failure) => tracing::warn!(%failure, "old revisions in etcd were not thrown away"),
        }
    }
}

/// Whoever writes the key from this turn to the next has the round; the others wait for the one after it.
pub async fn compact(client: &Client, round: Round) -> Result<Round, Failure> {
    let key = Bytes::from_static(KEY);
    let value = round.revision.to_string().into();
    let request = TxnRequest {
        compare: vec![transaction::written(key.clone(), round.turn)],
        success: vec![transaction::put(PutRequest { key: key.clone(), value, lease: 0 })],
        failure: vec![transaction::get(key)],
    };
    let answer = client.transact(request).await?;
    let now = revision(answer.header.as_ref());
    if !answer.succeeded {
        let turn = transaction::answered(answer).map_or(0, |kv| kv.version);
        return Ok(Round { turn, revision: now });
    }
    let next = Round { turn: round.turn + 1, revision: now };
    if round.revision == 0 {
        return Ok(next);
    }
    match client.compact(signed(round.revision)).await {
        // Compacted further already, by hand or by etcd itself.
        Ok(()) | Err(Failure::Compacted) => Ok(next),
        Err(failure) => Err(failure),
    }
}
