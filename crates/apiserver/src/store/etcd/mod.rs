//! Objects in etcd, version 3, which several servers share.
//!
//! A resourceVersion is etcd's revision, and each write is one transaction that compares the revision at which the
//! object was last changed. A [`feed`] watches all keys and publishes what happens, whoever did it, so reading is the
//! same as with the other stores. A write returns once the feed has brought it back.
//!
//! Keys and values are our own: [`layout`] says how they look. Everything may be asked of any member; one that does
//! not answer is left for the next ([`members`]).

mod awaited;
pub(super) mod client;
pub(super) mod compaction;
pub(super) mod failure;
mod feed;
mod fresh;
pub(super) mod layout;
mod leases;
mod load;
mod members;
mod transaction;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Random;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backend::Loaded;
use super::errors::{OpenError, Trouble};
use super::options::Options;
use super::state::Shared;
use awaited::Awaited;
use client::Client;
use feed::Feed;
use fresh::Asker;
use layout::Layout;
use leases::Leases;

/// How long a start waits for etcd.
const OPEN_WAIT: Duration = Duration::from_secs(10);
/// How long a request waits for etcd, and for this server to hear of what etcd knows.
const WAIT: Duration = Duration::from_secs(20);
/// What is missing comes by itself, unless it was written under another prefix: then etcd must be asked for progress.
const NUDGE_AFTER: Duration = Duration::from_millis(5);
/// etcd answers that question only if nothing is under way to us, so it is asked again.
const NUDGE_PAUSE: Duration = Duration::from_millis(100);

/// Where etcd is and how to get in. Names of fields are those of upstream's flags.
#[derive(Debug, Clone)]
pub struct EtcdSettings {
    /// `https://host:port` each.
    pub servers: Vec<String>,
    /// Before all keys; upstream's default is `/registry`.
    pub prefix: String,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// How often old revisions are thrown away, whichever server does it; never if zero.
    pub compaction_interval: Duration,
}

impl EtcdSettings {
    fn error(&self, why: impl ToString) -> OpenError {
        OpenError::Etcd { servers: self.servers.join(","), why: why.to_string() }
    }
}

/// What writes to etcd. Its tasks end when it is dropped.
pub struct EtcdStore {
    client: Arc<Client>,
    layout: Layout,
    shared: Arc<Shared>,
    awaited: Arc<Awaited>,
    asker: Asker<Result<u64, String>>,
    leases: Leases,
    /// Makes the feed ask how far it is.
    nudge: Arc<Notify>,
    _running: DropGuard,
}

impl EtcdStore {
    pub async fn open(
        settings: EtcdSettings,
        options: Options,
        random: &dyn Random,
    ) -> Result<(Self, Arc<Shared>), OpenError> {
        let client = Arc::new(Client::new(&settings)?);
        let layout = Layout::new(&settings.prefix).map_err(|why| settings.error(why))?;
        let deadline = Instant::now() + OPEN_WAIT;
        client.check_version(deadline).await.map_err(|why| settings.error(why))?;
        load::claim(&client, &layout, deadline).await.map_err(|why| settings.error(why))?;
        let (loaded, problems) =
            load::all(&client, &layout, deadline).await.map_err(|why| settings.error(why))?;
        if let Some(problem) = problems.first() {
            return Err(settings.error(format!(
                "{problem}; see all of it with `bowline store check` and put it right with etcdctl"
            )));
        }
        let shared = Arc::new(Shared::new(loaded, options.limits));
        let stop = CancellationToken::new();
        let awaited = Arc::new(Awaited::new(random.next_u64()));
        let nudge = Arc::new(Notify::new());
        let feed = Feed {
            client: client.clone(),
            layout: layout.clone(),
            shared: shared.clone(),
            awaited: awaited.clone(),
            nudge: nudge.clone(),
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(feed.run()));
        if !settings.compaction_interval.is_zero() {
            let compaction = compaction::run(client.clone(), settings.compaction_interval);
            tokio::spawn(stop.clone().run_until_cancelled_owned(compaction));
        }
        let store = Self {
            client,
            layout,
            shared: shared.clone(),
            awaited,
            asker: Asker::new(),
            leases: Leases::new(options.expiry.map(|expiry| expiry.ttl)),
            nudge,
            _running: stop.drop_guard(),
        };
        Ok((store, shared))
    }

    /// Returns once everything that was written anywhere before this call is visible here.
    pub async fn fresh(&self) -> Result<(), Trouble> {
        let deadline = Instant::now() + WAIT;
        let question = || self.client.revision(&self.layout, deadline);
        let late = |_| Err("etcd does not answer; look after its members".to_owned());
        let answer = tokio::time::timeout_at(deadline, self.asker.ask(question)).await;
        let revision = answer.unwrap_or_else(late).map_err(Trouble::NotWritten)?;
        self.catch_up(revision, deadline).await
    }

    /// Returns once this server has heard of everything up to a revision.
    pub async fn reached(&self, revision: u64) {
        let reached = self.shared.reached(revision);
        tokio::pin!(reached);
        let mut pause = NUDGE_AFTER;
        loop {
            tokio::select! {
                biased;
                () = &mut reached => return,
                () = tokio::time::sleep(pause) => self.nudge.notify_one(),
            }
            pause = NUDGE_PAUSE;
        }
    }

    async fn catch_up(&self, revision: u64, deadline: Instant) -> Result<(), Trouble> {
        let reached = tokio::time::timeout_at(deadline, self.reached(revision)).await;
        reached.map_err(|_| {
            let now = self.shared.read().version();
            Trouble::NotWritten(format!(
                "this server is behind etcd: it has heard of revision {now}, not yet of {revision}. Its watch on etcd may be broken; try again"
            ))
        })
    }
}

/// Everything below the prefix, as of one revision, and what is wrong with it.
pub async fn read_all(settings: &EtcdSettings) -> Result<(Loaded, Vec<String>), OpenError> {
    let client = Client::new(settings)?;
    let layout = Layout::new(&settings.prefix).map_err(|why| settings.error(why))?;
    let deadline = Instant::now() + OPEN_WAIT;
    load::check_claim(&client, &layout, deadline).await.map_err(|why| settings.error(why))?;
    load::all(&client, &layout, deadline).await.map_err(|why| settings.error(why))
}
