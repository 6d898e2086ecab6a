//! One machine, one API server, all roles, one driver: in memory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_apiserver::auth::token::TokenSettings;
use bowline_apiserver::{Registry, Server, Store, auth, kinds};
use bowline_drivers::local::{self, LocalConfig};
use bowline_host::Random;
use bowline_host::fake::{self, FakeHost};
use bowline_machinery::journal::Entry;
use bowline_machinery::{Journal, Ports, client};
use bowline_roles::embedded::{Driver, Embedded, Settings};
use bowline_roles::invariants::{self, Snapshot};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::jitter::Jitter;
use crate::trace::Trace;

pub const NODE: &str = "node-1";
pub const POOL: &str = "/pool";
/// Virtual time that nothing needs.
const PATIENCE: Duration = Duration::from_secs(60);
const KUBELET_DIR: &str = "/var/lib/kubelet";
const ISSUER: &str = "https://kubernetes.default.svc";
/// Clients are in this process and check no certificate.
const AUTHORITY: &str = "the authority of the simulated API server";

/// A whole world, started and ready.
pub struct World {
    pub ports: Ports,
    pub machine: Arc<FakeHost>,
    pub roles: Embedded,
    entries: Mutex<UnboundedReceiver<Entry>>,
    seen: Mutex<Vec<Entry>>,
}

/// The delays come from a stream of their own, so that they do not shift names and UIDs.
struct Delays(Mutex<ChaCha12Rng>);

impl Random for Delays {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}

#[expect(clippy::expect_used, clippy::panic, reason = "a world that cannot start is a failed test")]
impl World {
    pub async fn start(seed: u64) -> Self {
        let (host, machine) = fake::host(seed);
        let mut registry = Registry::new();
        kinds::register::register(&mut registry);
        kinds::register::register_admission_of(&mut registry, &kinds::plugins::Plugins::default());
        let tokens = TokenSettings::ephemeral(ISSUER).expect("a key for tokens");
        let access = auth::Settings { tokens: Some(tokens), ..auth::Settings::default() };
        let (clock, random) = (host.clock.clone(), host.random.clone());
        let server = Server::guarded(Store::memory(), registry, clock, random, access);
        server.bootstrap().await.expect("bootstrap");

        let delays = Arc::new(Delays(Mutex::new(ChaCha12Rng::seed_from_u64(!seed))));
        let client = client::in_process(Jitter::new(server, delays));
        let journal = Journal::default();
        let entries = journal.listen();
        let ports = Ports::new(client, host.clone(), journal, CancellationToken::new());

        let socket = PathBuf::from(KUBELET_DIR).join("plugins").join(local::NAME).join("csi.sock");
        let config = LocalConfig::new(POOL.into(), NODE.into()).expect("driver settings");
        let folder = socket.parent().expect("the socket stands in a folder");
        host.disk.create_dir_all(folder, 0o750).await.expect("the driver's folder");
        let (driver_host, path, stop) = (host, socket.clone(), ports.stop.clone());
        tokio::spawn(async move { local::run(driver_host, config, &path, stop).await });

        let settings = Settings {
            node_name: NODE.into(),
            kubelet_dir: KUBELET_DIR.into(),
            drivers: vec![Driver { name: local::NAME.into(), socket, attaches: true }],
            allow_privileged: false,
            hidden: Vec::new(),
            kubelet: None,
            root_ca: Some(AUTHORITY.into()),
        };
        let roles = Embedded::start(&ports, settings);
        let roles =
            tokio::time::timeout(PATIENCE, roles).await.expect("roles start in time").expect("roles start");
        let world = Self { ports, machine, roles, entries: Mutex::new(entries), seen: Mutex::default() };
        world.within(world.roles.ready(), "the node is ready").await;
        world
    }

    /// Waits at most as long as nothing needs, in virtual time; what happened so far explains a failure.
    pub async fn within<T>(&self, work: impl Future<Output = T>, what: &str) -> T {
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(done) => done,
            Err(_) => panic!("{what}: waited in vain. The last effects:\n{}", self.trace().await.tail(60)),
        }
    }

    /// The promises hold now.
    pub fn check(&self) {
        let informers = &self.ports.informers;
        let seen = Snapshot {
            claims: informers.of().list(),
            volumes: informers.of().list(),
            attachments: informers.of().list(),
        };
        assert_eq!(invariants::violations(&seen), Vec::<String>::new());
    }

    /// Everything that has happened so far.
    pub async fn trace(&self) -> Trace {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(entry) = entries.try_recv() {
            seen.push(entry);
        }
        Trace::of(&seen)
    }
}
