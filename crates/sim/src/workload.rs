//! What people do, from a seed: claims, pods, moves, deletions, the same names again.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, PersistentVolumeClaim, Pod, build, volume};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::cluster::{CLASS_AT_ONCE, CLASS_LATE, CLASS_RETAIN, Cluster, NODES, delete, node_name};

/// Names are few, so that they are used again.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Things that people do in one history.
const STEPS: u64 = 10;
/// Longest pause between two of them.
const PAUSE_MAX: u64 = 12_000;
const HOSTNAME: &str = "kubernetes.io/hostname";

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

    /// Does it all.
    pub async fn run(&mut self, cluster: &Arc<Cluster>) {
        let first = NAMES[self.below(NAMES.len() as u64) as usize];
        self.claim(cluster, first).await;
        self.pod(cluster, first).await;
        for _ in 0..STEPS {
            let pause = self.below(PAUSE_MAX);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let name = NAMES[self.below(NAMES.len() as u64) as usize];
            match self.below(8) {
                0 | 1 => self.claim(cluster, name).await,
                2..=4 => {
                    self.claim(cluster, name).await;
                    self.pod(cluster, name).await;
                }
                5 => self.delete_pods(cluster, name).await,
                6 => {
                    self.delete_pods(cluster, name).await;
                    self.pod(cluster, name).await;
                }
                _ => self.delete_claim(cluster, name).await,
            }
        }
    }

    async fn claim(&mut self, cluster: &Cluster, name: &str) {
        let class =
            [CLASS_LATE, CLASS_LATE, CLASS_AT_ONCE, CLASS_AT_ONCE, CLASS_RETAIN][self.below(5) as usize];
        let modes = [volume::READ_WRITE_ONCE, volume::READ_WRITE_ONCE_POD, volume::READ_WRITE_MANY];
        let mode = modes[self.below(3) as usize];
        let claim = build::claim(name).class(class).access_mode(mode);
        let claim = if self.below(4) == 0 { claim.block() } else { claim };
        let made = cluster.person().create(&claim.build()).await;
        cluster.shared.say(format_args!("person creates claim {name}: {class} {mode} {}", made.is_ok()));
    }

    /// A pod with the claim; often bound to one node, so that volumes have to move.
    async fn pod(&mut self, cluster: &Cluster, name: &str) {
        let key = bowline_api::ObjectKey::new("default", name);
        let claim = cluster.shared.oracle().claims.get(&key).cloned();
        let block = claim.is_some_and(|claim| volume::claim_mode(&claim) == volume::BLOCK);
        let pod_name = format!("{name}-{}", self.below(2));
        let pod = build::pod(&pod_name).shell("sleep 3600").grace_seconds(self.below(3) as i64 * 10);
        let pod = if block { pod.device(name, "/dev/data") } else { pod.mount(name, "/data") };
        let mut pod = pod.build();
        let node = self.below(NODES as u64 + 1) as usize;
        if let Some(spec) = &mut pod.spec {
            spec.automount_service_account_token = Some(false);
            if node < NODES {
                spec.node_selector.get_or_insert_default().insert(HOSTNAME.into(), node_name(node));
            }
        }
        let made = cluster.person().create(&pod).await;
        cluster.shared.say(format_args!("person creates pod {pod_name} for node {node}: {}", made.is_ok()));
    }

    async fn delete_pods(&mut self, cluster: &Cluster, name: &str) {
        let pods: Vec<Arc<Pod>> = cluster.shared.oracle().pods.values().cloned().collect();
        for pod in pods.iter().filter(|pod| pod.name().starts_with(name)) {
            cluster.shared.say(format_args!("person deletes pod {}", pod.name()));
            delete(&cluster.person(), pod.as_ref(), None).await;
        }
    }

    async fn delete_claim(&mut self, cluster: &Cluster, name: &str) {
        let key = bowline_api::ObjectKey::new("default", name);
        let claim = cluster.shared.oracle().claims.get(&key).cloned();
        if let Some(claim) = claim {
            cluster.shared.say(format_args!("person deletes claim {name}"));
            delete(&cluster.person(), claim.as_ref(), None).await;
        }
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
