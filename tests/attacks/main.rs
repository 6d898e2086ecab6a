//! Goal: a pod reaches no device, file, process or volume that its spec does not give it (SEC-2).
//! Method: an attacker's pod in one namespace tries each known way out against a victim's pods in another. Each attack
//! prints `held` or `broken`; afterwards the victim must still run on its own, unchanged data.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod devices;
mod files;
mod identity;
mod outcome;
mod paths;
mod reach;
mod resources;
#[path = "../support/mod.rs"]
mod support;
mod victim;

use outcome::{Outcome, attack};
use rustix::fs::{Mode, OFlags};
use serde_json::Value;
use support::Cluster;
use victim::Victim;

/// The attacker's namespace.
pub const ATTACKER: &str = "mallory";

/// One way out, and how to tell that it is closed.
pub struct Attack {
    pub name: &'static str,
    /// `spec` of the attacker's pod.
    pub pod: Value,
    /// What goes into the attacker's claims before the pod starts: claim name and whether it is Block.
    pub claims: &'static [(&'static str, bool)],
    pub held: fn(&Outcome) -> Result<(), String>,
}

/// The script ran to its end and none of its tries worked: each one that works prints a line with `BROKEN`.
pub fn nothing_worked(outcome: &Outcome) -> Result<(), String> {
    let log = &outcome.log;
    match log.lines().find(|line| line.contains("BROKEN")) {
        Some(line) => Err(line.to_owned()),
        None if log.contains("done") => Ok(()),
        None => Err(format!("the attack did not run to its end: {outcome:?}")),
    }
}

/// The kubelet refused to start the container and says why.
pub fn refused(outcome: &Outcome) -> Result<(), String> {
    match &outcome.waiting {
        Some((reason, message)) if !message.is_empty() && outcome.log.is_empty() => {
            println!("         {reason}: {message}");
            Ok(())
        }
        _ => Err(format!("the pod was not refused: {outcome:?}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_from_inside_a_pod() {
    // A descriptor that the operator's shell left open must not reach a container.
    let _inherited =
        rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("open /");
    let cluster = Cluster::start().await;
    let victim = Victim::start(&cluster).await;
    let attacks = [
        devices::attacks(),
        files::attacks(&cluster, &victim),
        identity::attacks(),
        paths::attacks(),
        reach::attacks(),
        resources::attacks(),
    ];
    let mut broken = Vec::new();
    for (number, one) in attacks.into_iter().flatten().enumerate() {
        let outcome = attack(&cluster, number, &one).await;
        let verdict = (one.held)(&outcome);
        let verdict = match verdict {
            Ok(()) => victim.is_unharmed().await.map_err(|why| format!("the victim was harmed: {why}")),
            broken => broken,
        };
        match verdict {
            Ok(()) => println!("held    {}", one.name),
            Err(why) => {
                println!("broken  {}: {why}", one.name);
                broken.push(one.name);
            }
        }
    }
    victim.leave().await;
    cluster.assert_nothing_left().await;
    assert_eq!(broken, Vec::<&str>::new(), "attacks that worked");
}
