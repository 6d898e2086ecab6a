//! Claims: every class and access mode, deleted early, and made again under the same name.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{ObjectKey, build, volume};
use tokio::time::Instant;

use super::{CLASS_SECRET, Workload};
use crate::cluster::{CLASS_AT_ONCE, CLASS_LATE, CLASS_RETAIN, Cluster, delete};

/// How long people wait for a name to be free.
pub(super) const FREE: Duration = Duration::from_secs(20);
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// A claim that is deleted soon lives no longer.
const SOON: u64 = 1_500;

const CLASSES: [&str; 6] = [CLASS_LATE, CLASS_LATE, CLASS_AT_ONCE, CLASS_AT_ONCE, CLASS_RETAIN, CLASS_SECRET];
/// One node is the usual case; drivers refuse some of the others.
const MODES: [&str; 6] = [
    volume::READ_WRITE_ONCE,
    volume::READ_WRITE_ONCE,
    volume::READ_WRITE_ONCE,
    volume::READ_WRITE_ONCE_POD,
    volume::READ_WRITE_MANY,
    volume::READ_ONLY_MANY,
];

impl Workload {
    /// Creates a claim; one that exists stays as it is.
    pub(super) async fn claim(&mut self, cluster: &Cluster, name: &str) {
        let (class, mode) = (self.one(&CLASSES), self.one(&MODES));
        let claim = build::claim(name).class(class).access_mode(mode);
        let claim = if self.below(4) == 0 { claim.block() } else { claim };
        let made = cluster.person().create(&claim.build()).await;
        cluster.shared.say(format_args!("person creates claim {name}: {class} {mode} {}", made.is_ok()));
    }

    pub(super) async fn delete_claim(&mut self, cluster: &Cluster, name: &str) {
        let claim = cluster.shared.oracle().claims.get(&ObjectKey::new("default", name)).cloned();
        if let Some(claim) = claim {
            cluster.shared.say(format_args!("person deletes claim {name}"));
            delete(&cluster.person(), claim.as_ref(), None).await;
        }
    }

    /// The next claim of that name is another object, whatever its predecessor has left.
    pub(super) async fn replace_claim(&mut self, cluster: &Arc<Cluster>, name: &str) {
        let force = self.below(2) == 0;
        self.delete_pods(cluster, name, force.then_some(0)).await;
        self.delete_claim(cluster, name).await;
        let (key, begun) = (ObjectKey::new("default", name), Instant::now());
        while cluster.shared.oracle().claims.contains_key(&key) && begun.elapsed() < FREE {
            tokio::time::sleep(LOOK).await;
        }
        self.claim(cluster, name).await;
        let node = self.any_node();
        self.pod(cluster, name, node).await;
    }

    /// Deleted while its volume is being made, attached or mounted.
    pub(super) async fn short_lived(&mut self, cluster: &Arc<Cluster>, name: &str) {
        self.claim(cluster, name).await;
        if self.below(2) == 0 {
            let node = self.any_node();
            self.pod(cluster, name, node).await;
        }
        let lives = self.below(SOON);
        tokio::time::sleep(Duration::from_millis(lives)).await;
        let force = self.below(2) == 0;
        self.delete_pods(cluster, name, force.then_some(0)).await;
        self.delete_claim(cluster, name).await;
    }
}
