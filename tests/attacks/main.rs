//! Goal: a pod reaches no device, file, process or volume that its spec does not give it (SEC-2).
//! Method: an attacker's pod in one namespace tries each known way out against a victim's pods in another. Each attack
//! prints `held` or `broken`; afterwards the victim must still run on its own, unchanged data.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod devices;
mod exec;
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

/// The kubelet refused to start the container and says why, in the status and in an event.
pub fn refused(outcome: &Outcome) -> Result<(), String> {
    match &outcome.waiting {
        Some((reason, message)) if !message.is_empty() && outcome.log.is_empty() => {
            println!("         {reason}: {message}");
            told(outcome, message)
        }
        _ => Err(format!("the pod was not refused: {outcome:?}")),
    }
}

/// A warning about the attacker's pod says it.
pub fn told(outcome: &Outcome, what: &str) -> Result<(), String> {
    match outcome.warnings.iter().any(|text| text.contains(what)) {
        true => Ok(()),
        false => Err(format!("no event says `{what}`: {:?}", outcome.warnings)),
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
    let by_pod = attacks.into_iter().flatten().map(|one| (one, None));
    let by_exec = exec::attacks().into_iter().map(|(one, script)| (one, Some(script)));
    let mut broken = Vec::new();
    for (number, (one, script)) in by_pod.chain(by_exec).enumerate() {
        let outcome = attack(&cluster, number, &one, script).await;
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
