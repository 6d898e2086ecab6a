//! The calls to etcd.

use std::time::Duration;

use bowline_proto::etcd::kv_client::KvClient;
use bowline_proto::etcd::lease_client::LeaseClient;
use bowline_proto::etcd::maintenance_client::MaintenanceClient;
use bowline_proto::etcd::watch_client::WatchClient;
use bowline_proto::etcd::{
    CompactionRequest, LeaseGrantRequest, RangeRequest, RangeResponse, ResponseHeader, StatusRequest,
    TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::EtcdSettings;
use super::failure::Failure;
use super::layout::Layout;
use super::members::Members;
use crate::store::errors::OpenError;

/// How long one answer may take. etcd itself gives up after seven seconds.
const ANSWER: Duration = Duration::from_secs(8);
/// Between two tries, growing from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// etcd sends what happened in one piece, however much it is.
const MESSAGE_MAX: usize = i32::MAX as usize;
/// Requests to the watch under way at a time: one that opens it, and questions about progress.
const WATCH_REQUESTS: usize = 16;
/// Makes a member that is cut off from its leader end the watch.
const REQUIRE_LEADER: (&str, &str) = ("hasleader", "true");

pub struct Client {
    members: Members,
}

/// An open watch.
pub struct Watch {
    pub requests: mpsc::Sender<WatchRequest>,
    pub responses: Streaming<WatchResponse>,
    member: usize,
}

/// Waits between tries, longer each time, until a deadline.
pub struct Tries {
    deadline: Instant,
    pause: Duration,
}

impl Tries {
    pub fn until(deadline: Instant) -> Self {
        Self { deadline, pause: PAUSE_MIN }
    }

    /// Whether there is time for another try; waits before it.
    pub async fn again(&mut self) -> bool {
        let next = Instant::now() + self.pause;
        if next >= self.deadline {
            return false;
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        tokio::time::sleep_until(next).await;
        true
    }
}

impl Client {
    pub fn new(settings: &EtcdSettings) -> Result<Self, OpenError> {
        Ok(Self { members: Members::new(settings)? })
    }

    /// One call to one member. A member that does not answer well is left.
    async fn call<T, F>(&self, send: impl FnOnce(Channel) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let (number, channel) = self.members.current();
        let failure = match tokio::time::timeout(ANSWER, send(channel)).await {
            Ok(Ok(response)) => return Ok(response.into_inner()),
            Ok(Err(status)) => Failure::of(&status),
            Err(_) => Failure::Lost(format!("no answer within {} s", ANSWER.as_secs())),
        };
        if failure.may_pass() {
            self.members.leave(number);
        }
        Err(failure)
    }

    /// Repeats a call that changes nothing until it succeeds, is refused, or time is up.
    async fn repeat<T, F>(&self, deadline: Instant, mut call: impl FnMut() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut tries = Tries::until(deadline);
        loop {
            match call().await {
                Err(failure) if failure.may_pass() && tries.again().await => {}
                result => return result,
            }
        }
    }

    pub async fn range(&self, request: RangeRequest, deadline: Instant) -> Result<RangeResponse, Failure> {
        let once = || {
            let request = request.clone();
            self.call(move |channel| async move { kv(channel).range(request).await })
        };
        self.repeat(deadline, once).await
    }

    /// Once only: a transaction whose answer is lost may have happened.
    pub async fn transact(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        self.call(|channel| async move { kv(channel).txn(request).await }).await
    }

    pub async fn compact(&self, revision: i64) -> Result<(), Failure> {
        let request = CompactionRequest { revision, physical: false };
        self.call(|channel| async move { kv(channel).compact(request).await }).await.map(drop)
    }

    /// A lease whose answer is lost is granted again; the first one ends by itself.
    pub async fn grant(&self, seconds: i64, deadline: Instant) -> Result<i64, Failure> {
        let request = LeaseGrantRequest { ttl: seconds, id: 0 };
        let once = || {
            let request = request;
            self.call(move |channel| async move { LeaseClient::new(channel).lease_grant(request).await })
        };
        Ok(self.repeat(deadline, once).await?.id)
    }

    /// The revision of the whole of etcd now: no write that was answered before this call has a later one.
    pub async fn revision(&self, layout: &Layout, deadline: Instant) -> Result<u64, String> {
        let request = RangeRequest { key: layout.format_key(), count_only: true, ..RangeRequest::default() };
        let answer = self.range(request, deadline).await.map_err(|failure| {
            format!("etcd does not answer: {failure}. Look after its members; this server tries all of them")
        })?;
        Ok(revision(answer.header.as_ref()))
    }

    /// Refuses an etcd whose answers about progress may run ahead of its events.
    pub async fn check_version(&self, deadline: Instant) -> Result<(), String> {
        let once =
            || self.call(|channel| async { MaintenanceClient::new(channel).status(StatusRequest {}).await });
        let status = self.repeat(deadline, once).await.map_err(|failure| failure.to_string())?;
        if is_recent(&status.version) {
            return Ok(());
        }
        Err(format!(
            "it is version {}, whose watches may report progress too early: 3.4.31, 3.5.13 or later is needed",
            status.version
        ))
    }

    pub async fn watch(&self, first: WatchRequest) -> Result<Watch, Failure> {
        let (requests, stream) = mpsc::channel(WATCH_REQUESTS);
        requests.try_send(first).map_err(|error| Failure::NotSent(error.to_string()))?;
        let mut request = Request::new(receiving(stream));
        request
            .metadata_mut()
            .insert(REQUIRE_LEADER.0, tonic::metadata::MetadataValue::from_static(REQUIRE_LEADER.1));
        let (member, _) = self.members.current();
        let call = |channel| async move {
            WatchClient::new(channel).max_decoding_message_size(MESSAGE_MAX).watch(request).await
        };
        let responses = self.call(call).await?;
        Ok(Watch { requests, responses, member })
    }

    /// Turns to another member than the one that serves this watch.
    pub fn leave(&self, watch: &Watch) {
        self.members.leave(watch.member);
    }
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(MESSAGE_MAX)
}

fn receiving(receiver: mpsc::Receiver<WatchRequest>) -> impl futures::Stream<Item = WatchRequest> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        let request = receiver.recv().await?;
        Some((request, receiver))
    })
}

/// Revisions are signed on the wire and never negative.
pub fn revision(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| unsigned(header.revision))
}

pub fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

pub fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// The versions from which upstream trusts reports of progress.
fn is_recent(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    let version = (next(), next(), next());
    version >= (3, 5, 13) || ((3, 4, 31)..(3, 5, 0)).contains(&version)
}

#[cfg(test)]
impl Client {
    /// Whether the member that is asked leads the others.
    pub async fn leads(&self) -> bool {
        let call = |channel| async { MaintenanceClient::new(channel).status(StatusRequest {}).await };
        let Ok(status) = self.call(call).await else { return false };
        status.header.is_some_and(|header| header.member_id == status.leader)
    }

    /// Writes a key as no store would.
    pub async fn put(&self, key: &str, value: &'static str) {
        let put =
            bowline_proto::etcd::PutRequest { key: key.to_owned().into(), value: value.into(), lease: 0 };
        let request = TxnRequest { success: vec![super::transaction::put(put)], ..TxnRequest::default() };
        self.transact(request).await.unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_whose_progress_can_be_trusted() {
        for good in ["3.4.31", "3.4.40", "3.5.13", "3.6.0", "3.6.16", "3.7.0-alpha.0", "4.0.0"] {
            assert!(is_recent(good), "{good}");
        }
        for bad in ["3.3.99", "3.4.30", "3.5.0", "3.5.12", ""] {
            assert!(!is_recent(bad), "{bad}");
        }
    }
}
