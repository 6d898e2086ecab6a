//! What people do, from a seed: claims, pods, moves between nodes, deletions by force, the same names again, and objects
//! that are edited and deleted by hand.

mod by_hand;
mod claims;
mod journey;
mod node_lost;
mod pods;
mod policy;

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, Secret, StorageClass, build, volume};
use bowline_drivers::local;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::cluster::{Cluster, delete};
use crate::oracle::SECRET;

/// Names are few, so that they are used again.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Things that people do in one history.
const STEPS: u64 = 10;
/// Longest pause between two of them.
const PAUSE_MAX: u64 = 10_000;
/// How long deletions go on under faults.
const LAST: Duration = Duration::from_secs(20);
/// The class whose volumes need secrets in every call.
const CLASS_SECRET: &str = "with-secrets";
const SECRET_NAME: &str = "key";
const SECRET_NAMESPACE: &str = "kube-system";

/// One thing that people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Claim,
    Pod,
    /// Another pod of the same claim, on the same node or another one.
    SecondPod,
    DeletePods,
    /// `kubectl delete pod --force`: the object goes at once, whatever still runs.
    ForceDeletePods,
    /// The pod ends on one node and its claim is wanted on another.
    Move,
    /// The node is out of reach, its pods are deleted by force and made on another node.
    MoveFromLostNode,
    /// A node without power is tainted out of service, and its pods are made on another node.
    OutOfService,
    DeleteClaim,
    /// The same name again, as another object.
    ReplaceClaim,
    /// A claim that is deleted while its volume is being made.
    ShortLived,
    DeleteVolume,
    /// What a claim has is to outlive it, or not to any more.
    ChangePolicy,
    /// What outlived its claim is given to another one, as a volume that a person makes.
    Reuse,
    DeleteClass,
    DeleteNode,
    /// A program is restarted, and pods go in the meantime.
    Restart,
    Edit,
}

/// What people do, and how often of the sum.
const DEEDS: &[(Deed, u64)] = &[
    (Deed::Claim, 2),
    (Deed::Pod, 6),
    (Deed::SecondPod, 4),
    (Deed::DeletePods, 2),
    (Deed::ForceDeletePods, 2),
    (Deed::Move, 4),
    (Deed::MoveFromLostNode, 2),
    (Deed::OutOfService, 2),
    (Deed::DeleteClaim, 2),
    (Deed::ReplaceClaim, 3),
    (Deed::ShortLived, 3),
    (Deed::DeleteVolume, 1),
    (Deed::ChangePolicy, 1),
    (Deed::Reuse, 2),
    (Deed::DeleteClass, 1),
    (Deed::DeleteNode, 1),
    (Deed::Restart, 2),
    (Deed::Edit, 1),
];

/// What people do when something goes wrong before their eyes.
const REACTIONS: &[(Deed, u64)] = &[
    (Deed::DeletePods, 2),
    (Deed::ForceDeletePods, 2),
    (Deed::Move, 1),
    (Deed::MoveFromLostNode, 1),
    (Deed::OutOfService, 1),
    (Deed::DeleteClaim, 4),
    (Deed::ReplaceClaim, 2),
    (Deed::Edit, 3),
];

/// The sequence of one history.
pub struct Workload {
    random: ChaCha12Rng,
}

impl Workload {
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha12Rng::seed_from_u64(seed ^ 0x0003_0b1d) }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn drawn(&mut self, deeds: &[(Deed, u64)]) -> Deed {
        let mut left = self.below(deeds.iter().map(|(_, weight)| weight).sum());
        let reached = |(_, weight): &&(Deed, u64)| match left.checked_sub(*weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        deeds.iter().find(reached).map_or(Deed::Pod, |(deed, _)| *deed)
    }

    /// Does it all. Says whether everything that people made was deleted at the end.
    pub async fn run(&mut self, cluster: &Arc<Cluster>) -> bool {
        prepare(cluster).await;
        let first = self.one(&NAMES);
        self.perform(cluster, Deed::Pod, first).await;
        for _ in 0..STEPS {
            let struck = self.pause(cluster).await;
            let deed = if struck { self.drawn(REACTIONS) } else { self.drawn(DEEDS) };
            let name = self.one(&NAMES);
            let name = if struck { self.in_use(cluster, name) } else { name };
            self.perform(cluster, deed, name).await;
        }
        self.pause(cluster).await;
        let deleted = self.below(2) == 0;
        if deleted {
            delete_all(cluster).await;
            tokio::time::sleep(LAST).await;
        }
        deleted
    }

    /// Waits, often no longer than until something goes wrong. Says whether people saw that and do something about it.
    async fn pause(&mut self, cluster: &Cluster) -> bool {
        let (pause, sees, slowly) = (self.below(PAUSE_MAX), self.below(3) > 0, self.below(2) == 0);
        let hesitates = Duration::from_millis(if slowly { self.below(2_000) } else { self.below(50) });
        let pause = Duration::from_millis(pause);
        if !sees {
            tokio::time::sleep(pause).await;
            return false;
        }
        let struck = tokio::time::timeout(pause, cluster.shared.struck.notified()).await.is_ok();
        if struck {
            tokio::time::sleep(hesitates).await;
        }
        struck
    }

    async fn perform(&mut self, cluster: &Arc<Cluster>, deed: Deed, name: &str) {
        match deed {
            Deed::Claim => self.claim(cluster, name).await,
            Deed::Pod => {
                self.claim(cluster, name).await;
                let node = self.any_node();
                self.pod(cluster, name, node).await;
            }
            Deed::SecondPod => self.second_pod(cluster, name).await,
            Deed::DeletePods => self.delete_pods(cluster, name, None).await,
            Deed::ForceDeletePods => self.delete_pods(cluster, name, Some(0)).await,
            Deed::Move => self.move_pods(cluster, name).await,
            Deed::MoveFromLostNode => self.move_from_lost_node(cluster, name).await,
            Deed::OutOfService => self.out_of_service(cluster, name).await,
            Deed::DeleteClaim => self.delete_claim(cluster, name).await,
            Deed::ReplaceClaim => self.replace_claim(cluster, name).await,
            Deed::ShortLived => self.short_lived(cluster, name).await,
            Deed::DeleteVolume => self.delete_volume(cluster).await,
            Deed::ChangePolicy => self.change_policy(cluster).await,
            Deed::Reuse => self.reuse(cluster, name).await,
            Deed::Restart => self.restart(cluster, name).await,
            Deed::DeleteClass => self.delete_class(cluster).await,
            Deed::DeleteNode => self.delete_node(cluster).await,
            Deed::Edit => crate::upset::edit(cluster).await,
        }
    }

    /// The name that the last fault was about, or one that something has, if there is one.
    fn in_use<'a>(&mut self, cluster: &Cluster, otherwise: &'a str) -> &'a str {
        let about = cluster.shared.oracle().claim_about(&cluster.shared.about());
        let about = about.and_then(|about| NAMES.into_iter().find(|name| *name == about));
        if let Some(about) = about
            && self.below(4) > 0
        {
            return about;
        }
        let claims: Vec<String> = cluster.shared.oracle().claims.keys().map(|key| key.name.clone()).collect();
        let used: Vec<&'static str> =
            NAMES.into_iter().filter(|name| claims.iter().any(|claim| claim == name)).collect();
        if used.is_empty() { otherwise } else { self.one(&used) }
    }
}

/// What the workload needs beyond what every cluster has.
#[expect(clippy::expect_used, reason = "a cluster without its classes is a failed test")]
async fn prepare(cluster: &Cluster) {
    let person = cluster.person();
    let mut secret = Secret::default();
    secret.metadata.name = Some(SECRET_NAME.into());
    secret.metadata.namespace = Some(SECRET_NAMESPACE.into());
    secret.data.get_or_insert_default().entry("token".into()).or_default().0 = SECRET.as_bytes().to_vec();
    person.create(&secret).await.expect("create the secret");
    person.create::<StorageClass>(&secret_class()).await.expect("create the class");
}

fn secret_class() -> StorageClass {
    let calls = ["provisioner", "controller-publish", "node-stage", "node-publish"];
    let mut class = build::class(CLASS_SECRET, local::NAME);
    for call in calls {
        class = class
            .parameter(&format!("csi.storage.k8s.io/{call}-secret-name"), SECRET_NAME)
            .parameter(&format!("csi.storage.k8s.io/{call}-secret-namespace"), SECRET_NAMESPACE);
    }
    class.build()
}

/// What outlived its claims stays in the backend; people delete its objects.
pub async fn delete_retained(cluster: &Cluster) {
    let kept: Vec<Arc<PersistentVolume>> = {
        let oracle = cluster.shared.oracle();
        let kept = |found: &&Arc<PersistentVolume>| {
            volume::reclaim_policy(found) == volume::RETAIN && !found.deleting()
        };
        oracle.volumes.values().filter(kept).cloned().collect()
    };
    for found in kept {
        delete(&cluster.person(), found.as_ref(), None).await;
    }
}

/// Everything that people made goes.
pub async fn delete_all(cluster: &Cluster) {
    let (pods, claims) = {
        let oracle = cluster.shared.oracle();
        let claims: Vec<Arc<PersistentVolumeClaim>> = oracle.claims.values().cloned().collect();
        (oracle.pods.values().cloned().collect::<Vec<_>>(), claims)
    };
    let person = cluster.person();
    for pod in pods {
        delete(&person, pod.as_ref(), None).await;
    }
    for claim in claims {
        delete(&person, claim.as_ref(), None).await;
    }
}
