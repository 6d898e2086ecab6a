//! The lines between processes: requests to the API server (`api`) and calls to drivers (`csi`), with their faults.

pub mod api;
pub mod csi;
pub mod effect;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_host::Random;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::fault::{Fault, Opportunity, Plan};
use crate::oracle::Oracle;
use crate::process::life::Life;

/// Longest delay of one message on a good day.
const DELAY_MAX: Duration = Duration::from_millis(20);

/// What happens to more than one line: a driver that dies, a machine that loses power. The cluster does it.
#[derive(Debug)]
pub struct Upset {
    pub fault: Fault,
    /// The process whose effect it was.
    pub process: String,
    /// Told when it has been done.
    pub done: oneshot::Sender<()>,
}

/// What all lines of one world share.
pub struct Shared {
    pub plan: Mutex<Plan>,
    pub oracle: Mutex<Oracle>,
    pub upsets: mpsc::UnboundedSender<Upset>,
    /// A fault has struck: people may see it and react.
    pub struck: tokio::sync::Notify,
    about: Mutex<String>,
    delays: Mutex<ChaCha12Rng>,
    trace: Mutex<Vec<String>>,
    born: Instant,
    /// The program that started each container.
    containers: Mutex<BTreeMap<String, String>>,
}

/// The program of a process, whichever replica and life it is.
fn program(process: &str) -> &str {
    process.split_once('.').map_or(process, |(program, _)| program)
}

impl Shared {
    pub fn new(seed: u64, plan: Plan, oracle: Oracle, upsets: mpsc::UnboundedSender<Upset>) -> Arc<Self> {
        Arc::new(Self {
            plan: Mutex::new(plan),
            oracle: Mutex::new(oracle),
            upsets,
            struck: tokio::sync::Notify::new(),
            about: Mutex::default(),
            // A stream of its own, so that delays do not shift names and UIDs.
            delays: Mutex::new(ChaCha12Rng::seed_from_u64(!seed)),
            trace: Mutex::default(),
            born: Instant::now(),
            containers: Mutex::default(),
        })
    }

    pub fn started(&self, container: &str, process: &str) {
        let mut containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.insert(container.to_owned(), program(process).to_owned());
    }

    pub fn has_started(&self, container: &str, process: &str) -> bool {
        let containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.get(container).is_some_and(|starter| starter == program(process))
    }

    /// Containers that a program has started.
    pub fn containers_of(&self, program: &str) -> Vec<String> {
        let containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.iter().filter(|(_, starter)| *starter == program).map(|(id, _)| id.clone()).collect()
    }

    /// Adds a line to the trace.
    pub fn say(&self, text: impl std::fmt::Display) {
        let line = format!("{:>10.4} {text}", self.born.elapsed().as_secs_f64());
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub fn trace(&self) -> Vec<String> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault that the plan has for this opportunity.
    pub fn strike(&self, opportunity: Opportunity, effect: &str, process: &str) -> Option<Fault> {
        let fault = self.plan().strike(opportunity, effect)?;
        self.say(format_args!("FAULT {} at `{effect}` of {process}", fault.kind.name()));
        self.struck.notify_one();
        Some(fault)
    }

    /// The same on a line: what is not the line's is done elsewhere, and what a person does comes first. `about` is the
    /// object or volume of the effect.
    pub async fn strike_line(
        &self,
        opportunity: Opportunity,
        effect: &str,
        process: &str,
        about: impl FnOnce() -> String,
    ) -> Option<Fault> {
        let fault = self.strike(opportunity, effect, process)?;
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = about();
        if !fault.kind.is_upset() {
            return Some(fault);
        }
        let (done, finished) = oneshot::channel();
        let by_hand = fault.kind.is_by_hand();
        let _ = self.upsets.send(Upset { fault, process: process.to_owned(), done });
        if by_hand {
            let _ = finished.await;
        }
        None
    }

    /// The object or volume that the last fault on a line was about.
    pub fn about(&self) -> String {
        self.about.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sleeps for a moment that the seed decides.
    pub async fn hold_up(&self) {
        let micros = self.next_u64() % DELAY_MAX.as_micros() as u64;
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

impl Random for Shared {
    fn next_u64(&self) -> u64 {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}

/// One process as the lines know it.
#[derive(Clone)]
pub struct Caller {
    pub process: Arc<str>,
    pub life: Life,
    pub shared: Arc<Shared>,
    /// The lease without which this process may do nothing.
    pub lease: Option<Arc<str>>,
    /// A person at a terminal: the world is kind to it, and what it does is no effect of a role.
    pub person: bool,
}

impl Caller {
    /// An effect begins: a process that shares a lease must hold it.
    fn begins(&self, effect: &str) {
        if let Some(lease) = &self.lease
            && !self.life.has_stalled()
        {
            self.shared.oracle().leads(&self.process, lease, effect);
        }
    }
}
