//! A whole cluster in memory: an API server with a prepared store, one machine for all nodes, and the programs, each a
//! process that can die at any moment and is started again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_host::fake::{self, FakeHost, FakeNode};
use bowline_host::{Failpoints, Random};
use bowline_machinery::client::{Client, ClientError, Clients, Line, Subject, in_process_with};
use bowline_machinery::{Effects, Journal, Object, Ports};
use jiff::SignedDuration;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fault::{Fault, Opportunity, Plan};
use crate::line::api::{ApiLine, AsksAs};
use crate::line::effect::of_point;
use crate::line::{Caller, Shared};
use crate::machine::Machine;
use crate::oracle::{Oracle, kubelet_dir};
pub use crate::prepared::{CLASS_AT_ONCE, CLASS_LATE, CLASS_RETAIN};
use crate::process::doors::Doors;
use crate::process::life::Life;
use crate::process::{Program, Start, run};
use crate::servers::ApiServers;
use crate::upset;

/// Nodes of every cluster.
pub const NODES: usize = 2;
/// Longest pause before a process that ended is started again.
const RESTART_MAX: Duration = Duration::from_secs(10);

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
    /// Those of the nodes, then that of the control plane.
    machines: Vec<Arc<Machine>>,
    servers: Arc<ApiServers>,
    seed: u64,
    /// Whether the garbage collector runs, too: it watches every kind, and volumes have no owners.
    collects: bool,
    running: Mutex<BTreeMap<String, Running>>,
    over: CancellationToken,
}

impl Cluster {
    pub async fn start(seed: u64, faults: &[Fault]) -> Arc<Self> {
        let (host, machine) = fake::host(seed);
        let servers = ApiServers::start(seed, host.clock, host.random);
        let oracle = Oracle::new(machine.clone(), &servers.store());
        let (upsets, waiting) = mpsc::unbounded_channel();
        let shared = Shared::new(seed, Plan::of(faults), oracle, upsets);
        let running = Mutex::default();
        let machines = (0..=NODES).map(|number| Arc::new(Machine::new(seed, number))).collect();
        let cluster = Arc::new(Self {
            shared,
            machine,
            machines,
            servers,
            seed,
            collects: seed.is_multiple_of(8),
            running,
            over: CancellationToken::new(),
        });
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

    /// A person with kubectl, to whom the world is kind.
    pub fn person(&self) -> Effects {
        let caller = Caller {
            process: "kubectl".into(),
            life: Life::default(),
            shared: self.shared.clone(),
            lease: None,
            person: true,
        };
        let ports = self.ports(Program::Scheduler, caller, self.over.clone(), 0, Failpoints::default());
        ports.effects("kubectl")
    }

    fn ports(
        &self,
        program: Program,
        caller: Caller,
        stop: CancellationToken,
        stream: u64,
        points: Failpoints,
    ) -> Ports {
        let random = ChaCha12Rng::seed_from_u64(self.seed ^ name_hash(&caller.process) ^ stream);
        let clocks = self.machine_of(program).clone();
        let host = Doors::open(caller.clone(), self.machine.clone(), clocks, random, points);
        let clients =
            Identities { program, caller, servers: self.servers.clone(), random: host.random.clone() };
        let ports = Ports::new(clients.own(), host, Journal::default(), stop);
        if program == Program::ControllerManager { ports.with_clients(Arc::new(clients)) } else { ports }
    }

    /// Keeps a process running, as systemd or a kubelet does.
    async fn supervise(self: Arc<Self>, program: Program, replica: usize, replicas: bool) {
        let mut random =
            ChaCha12Rng::seed_from_u64(self.seed ^ name_hash(&program.name()) ^ (replica as u64) << 32);
        for generation in 0.. {
            while let Some(until) = self.machine_of(program).dark_until() {
                tokio::time::sleep_until(until).await;
            }
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
            let ports = self.ports(program, caller, running.stop.clone(), random.next_u64(), points);
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

    /// The machine that a program runs on.
    pub fn machine_of(&self, program: Program) -> &Arc<Machine> {
        &self.machines[program.node().unwrap_or(NODES)]
    }

    /// People set the wall clocks of all machines.
    pub fn set_clocks(&self, by: SignedDuration) {
        self.machines.iter().for_each(|machine| machine.step(by));
    }

    /// One node loses power for a while.
    pub fn power_cut(&self, node: usize, lasts: Duration) {
        for one in self.processes().values().filter(|one| one.program.ends_with(node)) {
            one.kill();
        }
        self.machines[node].power_cut(lasts);
        let name = node_name(node);
        let mut oracle = self.shared.oracle();
        oracle.node_lost(&name);
        self.machine.reboot_node(&FakeNode {
            dir: &kubelet_dir(&name),
            containers: &self.shared.containers_of(&Program::Kubelet(node).name()),
            used_elsewhere: &|image| oracle.is_staged(image),
        });
    }

    /// Until when some node has no power.
    pub fn dark_until(&self) -> Option<Instant> {
        self.machines.iter().filter_map(|machine| machine.dark_until()).max()
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

/// Clients of one process: under its own name, and under those of the controllers in it.
struct Identities {
    program: Program,
    caller: Caller,
    servers: Arc<ApiServers>,
    random: Arc<dyn Random>,
}

impl Identities {
    fn own(&self) -> Client {
        let asks_as = match self.program {
            _ if self.caller.person => AsksAs::Person,
            Program::Kubelet(node) => AsksAs::node(&node_name(node)),
            program => AsksAs::Role(program.name().into()),
        };
        self.asking_as(asks_as)
    }

    fn asking_as(&self, asks_as: AsksAs) -> Client {
        let line = Line::of(&self.caller.process, "sim", self.random.clone());
        let (caller, servers) = (self.caller.clone(), self.servers.clone());
        in_process_with(ApiLine { caller, servers, asks_as }, line)
    }
}

impl Clients for Identities {
    fn client(&self, subject: &Subject) -> Result<Client, ClientError> {
        Ok(match subject {
            Subject::ServiceAccount(name) => self.asking_as(AsksAs::Role((*name).into())),
            Subject::User(_) | Subject::Node(_) => self.own(),
        })
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

/// FNV-1a: the same on every machine.
fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whatever a person deletes is deleted, whether it is there or not.
pub async fn delete<K: Object>(person: &Effects, object: &K, grace: Option<u32>) {
    let _ = person.delete(object, grace).await;
}
