//! A whole cluster in memory: an API server with a prepared store, one machine for all nodes, and the programs, each a
//! process that can die at any moment and is started again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::{CSIDriver, Namespace, ServiceAccount, StorageClass, build};
use bowline_apiserver::auth::{self, token::TokenSettings};
use bowline_apiserver::{Registry, Server, Store, kinds};
use bowline_drivers::local;
use bowline_host::Failpoints;
use bowline_host::fake::{self, FakeHost};
use bowline_machinery::client::{Line, in_process_with};
use bowline_machinery::{EffectError, Effects, Journal, Object, Ports};
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fault::{Fault, Opportunity, Plan};
use crate::line::api::ApiLine;
use crate::line::effect::of_point;
use crate::line::{Caller, Shared};
use crate::oracle::Oracle;
use crate::process::doors::{Doors, WallClock};
use crate::process::life::Life;
use crate::process::{Program, Start, run};
use crate::upset;

/// Nodes of every cluster.
pub const NODES: usize = 2;
/// Longest pause before a process that ended is started again.
const RESTART_MAX: Duration = Duration::from_secs(10);
const ISSUER: &str = "https://kubernetes.default.svc";
pub const CLASS_LATE: &str = "late";
pub const CLASS_AT_ONCE: &str = "at-once";
pub const CLASS_RETAIN: &str = "retain";

pub fn node_name(node: usize) -> String {
    format!("node-{node}")
}

/// A process that runs, or will soon again.
#[derive(Clone)]
pub struct Running {
    pub program: Program,
    pub life: Life,
    pub stop: CancellationToken,
}

impl Running {
    /// SIGKILL: every door shuts, then its tasks are told to end.
    pub fn kill(&self) {
        self.life.kill();
        self.stop.cancel();
    }
}

pub struct Cluster {
    pub shared: Arc<Shared>,
    pub machine: Arc<FakeHost>,
    pub wall: WallClock,
    server: Server,
    seed: u64,
    /// Whether the garbage collector runs, too: it watches every kind, and volumes have no owners.
    collects: bool,
    running: Mutex<BTreeMap<String, Running>>,
    over: CancellationToken,
}

#[expect(clippy::expect_used, reason = "a cluster that cannot start is a failed test")]
impl Cluster {
    pub async fn start(seed: u64, faults: &[Fault]) -> Arc<Self> {
        let (host, machine) = fake::host(seed);
        let mut registry = Registry::new();
        kinds::register::register(&mut registry);
        kinds::register::register_admission_of(&mut registry, &kinds::plugins::Plugins::default());
        let tokens = TokenSettings::ephemeral(ISSUER).expect("a key for tokens");
        let access = auth::Settings { tokens: Some(tokens), ..auth::Settings::default() };
        let server = Server::guarded(Store::memory(), registry, host.clock, host.random, access);
        let oracle = Oracle::new(machine.clone(), server.store());
        let (upsets, waiting) = mpsc::unbounded_channel();
        let shared = Shared::new(seed, Plan::of(faults), oracle, upsets);
        let running = Mutex::default();
        let (wall, over) = (WallClock::default(), CancellationToken::new());
        let cluster = Arc::new(Self {
            shared,
            machine,
            wall,
            server,
            seed,
            collects: seed.is_multiple_of(8),
            running,
            over,
        });
        cluster.prepare().await.expect("the prepared store");
        tokio::spawn(upset::follow(Arc::downgrade(&cluster), waiting));
        let mut random = ChaCha12Rng::seed_from_u64(seed ^ 0xc1_0571);
        for program in programs() {
            let replicas = if program.lease().is_some() && random.next_u64() % 3 == 0 { 2 } else { 1 };
            for replica in 0..replicas {
                tokio::spawn(cluster.clone().supervise(program, replica, replicas > 1));
            }
        }
        cluster
    }

    /// What every cluster starts with; roles of users are left out, since requests from inside are trusted.
    async fn prepare(&self) -> Result<(), EffectError> {
        let person = self.person();
        for name in ["default", "kube-system", "kube-node-lease"] {
            person.create(&Namespace { metadata: named("", name), ..Default::default() }).await?;
        }
        person
            .create(&ServiceAccount { metadata: named("default", "default"), ..Default::default() })
            .await?;
        let spec = CSIDriverSpec { attach_required: Some(true), ..Default::default() };
        person.create(&CSIDriver { metadata: named("", local::NAME), spec }).await?;
        let late = build::class(CLASS_LATE, local::NAME).wait_for_consumer();
        let retain = build::class(CLASS_RETAIN, local::NAME).reclaim("Retain");
        for class in [late, build::class(CLASS_AT_ONCE, local::NAME), retain] {
            person.create::<StorageClass>(&class.build()).await?;
        }
        Ok(())
    }

    /// A person with kubectl, to whom the world is kind.
    pub fn person(&self) -> Effects {
        let caller = Caller {
            process: "kubectl".into(),
            life: Life::default(),
            shared: self.shared.clone(),
            lease: None,
            person: true,
        };
        self.ports(caller, self.over.clone(), 0, Failpoints::default()).effects("kubectl")
    }

    fn ports(&self, caller: Caller, stop: CancellationToken, stream: u64, points: Failpoints) -> Ports {
        let random = ChaCha12Rng::seed_from_u64(self.seed ^ name_hash(&caller.process) ^ stream);
        let host = Doors::open(caller.clone(), self.machine.clone(), self.wall.clone(), random, points);
        let line = Line::of(&caller.process, "sim", host.random.clone());
        let client = in_process_with(ApiLine { caller, server: self.server.clone() }, line);
        Ports::new(client, host, Journal::default(), stop)
    }

    /// Keeps a process running, as systemd or a kubelet does.
    async fn supervise(self: Arc<Self>, program: Program, replica: usize, replicas: bool) {
        let mut random =
            ChaCha12Rng::seed_from_u64(self.seed ^ name_hash(&program.name()) ^ (replica as u64) << 32);
        for generation in 0.. {
            let process: Arc<str> = format!("{}.{replica}#{generation}", program.name()).into();
            let running = Running { program, life: Life::default(), stop: CancellationToken::new() };
            self.processes().insert(format!("{}.{replica}", program.name()), running.clone());
            let caller = Caller {
                process: process.clone(),
                life: running.life.clone(),
                shared: self.shared.clone(),
                lease: program.lease().filter(|_| replicas).map(|(name, ..)| name.into()),
                person: false,
            };
            let points = self.points(&process, &running);
            let ports = self.ports(caller, running.stop.clone(), random.next_u64(), points);
            let host = ports.host.clone();
            let start =
                Start { program, identity: replicas.then(|| process.to_string()), collects: self.collects };
            let mut work = tokio::spawn(run(start, ports, host));
            let why = tokio::select! {
                biased;
                () = self.over.cancelled() => return,
                () = running.life.ended() => "killed".to_owned(),
                ended = &mut work => format!("{ended:?}"),
            };
            running.kill();
            work.abort();
            if program == Program::Driver {
                self.machine.release_locks();
            }
            self.shared.oracle().died(&process);
            self.shared.say(format_args!("{process} ended: {why}"));
            let pause = random.next_u64() % RESTART_MAX.as_millis() as u64;
            tokio::time::sleep(Duration::from_millis(1 + pause)).await;
        }
    }

    /// Failpoints at which the plan may kill this process.
    fn points(&self, process: &Arc<str>, running: &Running) -> Failpoints {
        let (shared, process, running) = (self.shared.clone(), process.clone(), running.clone());
        Failpoints::watched(move |point| {
            let Some((effect, after)) = of_point(point) else { return };
            let opportunity = if after { Opportunity::After } else { Opportunity::Before };
            if !running.life.is_dead() && shared.strike(opportunity, &effect, &process).is_some() {
                running.kill();
            }
        })
    }

    pub fn processes(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the world.
    pub fn end(&self) {
        self.over.cancel();
        self.processes().values().for_each(Running::kill);
    }
}

/// Every program of the table.
fn programs() -> Vec<Program> {
    let mut programs = vec![
        Program::Driver,
        Program::ControllerManager,
        Program::Scheduler,
        Program::Provisioner,
        Program::Attacher,
    ];
    programs.extend((0..NODES).flat_map(|node| [Program::Registrar(node), Program::Kubelet(node)]));
    programs
}

fn named(namespace: &str, name: &str) -> ObjectMeta {
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    ObjectMeta { name: Some(name.into()), namespace, ..Default::default() }
}

/// FNV-1a: the same on every machine.
fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whatever a person deletes is deleted, whether it is there or not.
pub async fn delete<K: Object>(person: &Effects, object: &K, grace: Option<u32>) {
    let _ = person.delete(object, grace).await;
}
