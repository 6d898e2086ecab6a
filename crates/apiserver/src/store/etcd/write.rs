//! One write: a transaction, and what to do when its answer is lost.

use std::sync::Arc;

use bowline_proto::etcd::{KeyValue, PutRequest, RangeRequest, RequestOp, TxnRequest};
use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use super::awaited::{Seen, Ticket};
use super::client::{Tries, revision, signed, unsigned};
use super::failure::Failure;
use super::{EtcdStore, WAIT, layout, transaction};
use crate::store::errors::{Trouble, WriteError};
use crate::store::object::{EventKind, Stored, encode};
use crate::store::options::expires;
use crate::store::{Change, Expect, Write};

/// A write that was not done yet.
struct Attempt {
    resource: Arc<str>,
    key: bowline_api::ObjectKey,
    /// The key in etcd.
    place: Bytes,
    /// The revision of the object that is to be replaced; 0 for none.
    expected: u64,
    /// Absent for a deletion.
    new: Option<New>,
    ticket: Ticket,
}

struct New {
    object: Value,
    bytes: Bytes,
}

/// How one transaction ended.
enum Outcome {
    /// It happened at this revision; a deletion shows what was there.
    Done(u64, Option<KeyValue>),
    /// The object was not as expected, at this revision.
    Conflict(u64),
    Failed(Failure),
}

/// What an object whose transaction was lost looks like now.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Landed(u64),
    /// Nothing changed: the same transaction may be sent again, because only one of them can succeed.
    Again,
    /// Somebody else changed it, and this write did not happen.
    Conflict,
    Unknown,
}

/// Judges by the object that is stored now, and by what the feed saw up to then.
fn fate(deletion: bool, expected: u64, stored: Option<&KeyValue>, seen: &Seen) -> Fate {
    let changed_at = stored.map_or(0, |kv| unsigned(kv.mod_revision));
    match seen {
        Seen::Landed(revision) => return Fate::Landed(*revision),
        // An object that was made and deleted again in the gap looks as if it had never been.
        Seen::Perhaps if changed_at != expected || expected == 0 => return Fate::Unknown,
        Seen::Perhaps | Seen::Not => {}
    }
    if changed_at == expected {
        return Fate::Again;
    }
    // Somebody deleted it. If this was a deletion, too, nobody can say which one it was.
    let deleted = stored.is_none_or(|kv| unsigned(kv.create_revision) > expected);
    if deletion && deleted { Fate::Unknown } else { Fate::Conflict }
}

impl EtcdStore {
    pub async fn write(&self, write: Write) -> Result<Arc<Stored>, WriteError> {
        let deadline = Instant::now() + WAIT;
        let attempt = self.prepare(write)?;
        let mut tries = Tries::until(deadline);
        let mut lost = None;
        loop {
            let outcome = self.transact(&attempt, deadline).await;
            let failure = match (outcome, &lost) {
                (Outcome::Done(revision, was), _) => {
                    return self.done(attempt, revision, was, deadline).await;
                }
                (Outcome::Conflict(revision), None) => {
                    return Err(self.conflict(&attempt, revision, deadline).await);
                }
                // It may be the lost transaction that is in the way.
                (Outcome::Conflict(_), Some(failure)) => Failure::clone(failure),
                (Outcome::Failed(failure), _) => failure,
            };
            if matches!(failure, Failure::Lost(_)) {
                match self.look(&attempt, deadline).await.map_err(|_| unknown(&failure))? {
                    (Fate::Landed(revision), _) => return self.done(attempt, revision, None, deadline).await,
                    (Fate::Conflict, revision) => {
                        return Err(self.conflict(&attempt, revision, deadline).await);
                    }
                    (Fate::Unknown, _) => return Err(unknown(&failure).into()),
                    (Fate::Again, _) => lost = Some(failure.clone()),
                }
            }
            let hopeless = !failure.may_pass() && failure != Failure::NoLease;
            if hopeless || !tries.again().await {
                // One that was lost may still land, whatever the last one said.
                return Err(lost.as_ref().map_or_else(|| trouble(&failure), unknown).into());
            }
        }
    }

    fn prepare(&self, write: Write) -> Result<Attempt, Trouble> {
        let Write { resource, key, expect, change } = write;
        let ticket = self.awaited.begin();
        let new = match change {
            Change::Delete => None,
            Change::Put(mut object) => {
                let bytes = layout::encode(&mut object, &ticket.id).map_err(Trouble::NotWritten)?;
                Some(New { object, bytes })
            }
        };
        let expected = match expect {
            Expect::Absent => 0,
            Expect::Version(version) => version,
        };
        let place = self.layout.key(&resource, &key);
        Ok(Attempt { resource, key, place, expected, new, ticket })
    }

    async fn transact(&self, attempt: &Attempt, deadline: Instant) -> Outcome {
        let mut lease = 0;
        if attempt.new.is_some() && expires(&attempt.resource) {
            match self.leases.take(&self.client, deadline).await {
                Ok(id) => lease = id,
                // The write itself was not tried.
                Err(Failure::Lost(why)) => return Outcome::Failed(Failure::NotSent(why)),
                Err(failure) => return Outcome::Failed(failure),
            }
        }
        let request = TxnRequest {
            compare: vec![transaction::last_changed(attempt.place.clone(), signed(attempt.expected))],
            success: vec![attempt.operation(lease)],
            failure: Vec::new(),
        };
        match self.client.transact(request).await {
            Ok(answer) => {
                let revision = revision(answer.header.as_ref());
                if answer.succeeded {
                    Outcome::Done(revision, transaction::answered(answer))
                } else {
                    Outcome::Conflict(revision)
                }
            }
            Err(failure) => {
                if failure == Failure::NoLease {
                    self.leases.forget(lease).await;
                }
                Outcome::Failed(failure)
            }
        }
    }

    /// Finds out what became of a transaction: what is stored now, and everything that happened until then.
    async fn look(&self, attempt: &Attempt, deadline: Instant) -> Result<(Fate, u64), Trouble> {
        let request = RangeRequest { key: attempt.place.clone(), ..RangeRequest::default() };
        let answer = self.client.range(request, deadline).await.map_err(|failure| trouble(&failure))?;
        let now = revision(answer.header.as_ref());
        self.catch_up(now, deadline).await?;
        let stored = answer.kvs.first();
        let fate = fate(attempt.new.is_none(), attempt.expected, stored, &attempt.ticket.seen());
        tracing::info!(object = %attempt.key, ?fate, "an answer of etcd was lost; this is what became of the write");
        Ok((fate, now))
    }

    /// It is durable; now it becomes visible.
    async fn done(
        &self,
        attempt: Attempt,
        revision: u64,
        was: Option<KeyValue>,
        deadline: Instant,
    ) -> Result<Arc<Stored>, WriteError> {
        let landed =
            |why: String| Trouble::Unknown(format!("the write landed at revision {revision}, but {why}"));
        let (kind, object) = match (attempt.new, was) {
            (Some(new), _) => (EventKind::Modified, new.object),
            (None, Some(kv)) => (EventKind::Deleted, layout::decode(&kv.value).map_err(landed)?.object),
            (None, None) => return Err(landed("etcd does not say what it deleted".into()).into()),
        };
        let (json, _) = encode(kind, object, revision).map_err(landed)?;
        self.catch_up(revision, deadline).await.map_err(|trouble| landed(trouble.to_string()))?;
        Ok(Arc::new(Stored::new(attempt.key, revision, json)))
    }

    /// Once this is visible here, the caller can try again with what is there now.
    async fn conflict(&self, attempt: &Attempt, revision: u64, deadline: Instant) -> WriteError {
        match self.catch_up(revision, deadline).await {
            Ok(()) => {
                let current = self.shared.read().object(&attempt.resource, &attempt.key);
                WriteError::Conflict { current }
            }
            Err(trouble) => trouble.into(),
        }
    }
}

impl Attempt {
    fn operation(&self, lease: i64) -> RequestOp {
        let key = self.place.clone();
        match &self.new {
            Some(new) => transaction::put(PutRequest { key, value: new.bytes.clone(), lease }),
            None => transaction::delete(key),
        }
    }
}

fn unknown(failure: &Failure) -> Trouble {
    Trouble::Unknown(format!("the answer of etcd was lost: {failure}"))
}

fn trouble(failure: &Failure) -> Trouble {
    match failure {
        Failure::Full(why) => Trouble::Full(format!(
            "etcd has reached its quota ({why}). Delete objects, compact and defragment it with etcdctl, then disarm its alarm, or raise its --quota-backend-bytes; reads and deletes go on"
        )),
        Failure::TooLarge(why) => Trouble::TooLarge(format!("the object is too large for etcd ({why})")),
        Failure::Lost(_) => unknown(failure),
        Failure::NotSent(_) | Failure::Refused(_) | Failure::NoLease | Failure::Compacted => {
            Trouble::NotWritten(format!("etcd does not take the write: {failure}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(create_revision: i64, mod_revision: i64) -> Option<KeyValue> {
        Some(KeyValue { create_revision, mod_revision, ..KeyValue::default() })
    }

    #[test]
    fn what_became_of_a_lost_write() {
        use Fate::{Again, Conflict, Landed, Unknown};
        let (put, delete) = (false, true);
        // What was sent, the revision it expected, what is stored now, what the feed saw.
        let table = [
            (put, 0, kv(9, 9), Seen::Landed(9), Landed(9)),
            (put, 0, None, Seen::Landed(9), Landed(9)),
            (put, 5, kv(3, 12), Seen::Landed(9), Landed(9)),
            (put, 0, None, Seen::Not, Again),
            (put, 0, kv(9, 9), Seen::Not, Conflict),
            (put, 5, kv(3, 5), Seen::Not, Again),
            (put, 5, kv(3, 9), Seen::Not, Conflict),
            (put, 5, None, Seen::Not, Conflict),
            (put, 5, kv(3, 5), Seen::Perhaps, Again),
            (put, 5, kv(3, 9), Seen::Perhaps, Unknown),
            (put, 0, None, Seen::Perhaps, Unknown),
            (put, 0, kv(9, 9), Seen::Perhaps, Unknown),
            (delete, 5, kv(3, 5), Seen::Not, Again),
            (delete, 5, None, Seen::Not, Unknown),
            (delete, 5, kv(8, 9), Seen::Not, Unknown),
            (delete, 5, kv(3, 9), Seen::Not, Conflict),
            (delete, 5, None, Seen::Perhaps, Unknown),
        ];
        for (deletion, expected, stored, seen, becomes) in table {
            let found = fate(deletion, expected, stored.as_ref(), &seen);
            assert_eq!(found, becomes, "{deletion} {expected} {stored:?} {seen:?}");
        }
    }

    #[test]
    fn only_a_lost_answer_leaves_doubt() {
        let text = || "why".to_owned();
        assert!(matches!(trouble(&Failure::Lost(text())), Trouble::Unknown(_)));
        assert!(matches!(trouble(&Failure::NotSent(text())), Trouble::NotWritten(_)));
        assert!(matches!(trouble(&Failure::Full(text())), Trouble::Full(_)));
        assert!(matches!(trouble(&Failure::TooLarge(text())), Trouble::TooLarge(_)));
    }
}
