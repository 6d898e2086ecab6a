//! Pods: two of one claim, moves between nodes, deletions by force.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, ObjectKey, Pod, build, pod, volume};
use tokio::time::Instant;

use super::Workload;
use crate::cluster::{Cluster, NODES, delete, node_name};
use crate::process::Program;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// How long people wait for a pod to be gone.
const GONE: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(200);
/// How long a lost node is out of reach.
const LOST: Duration = Duration::from_secs(40);

impl Workload {
    /// Often one of them, so that volumes have to move.
    pub(super) fn any_node(&mut self) -> Option<usize> {
        let node = self.below(NODES as u64 + 1) as usize;
        (node < NODES).then_some(node)
    }

    /// A pod with the claim.
    pub(super) async fn pod(&mut self, cluster: &Cluster, name: &str, node: Option<usize>) {
        let claim = cluster.shared.oracle().claims.get(&ObjectKey::new("default", name)).cloned();
        let block = claim.is_some_and(|claim| volume::claim_mode(&claim) == volume::BLOCK);
        let pod_name = format!("{name}-{}", self.below(2));
        let pod = build::pod(&pod_name).shell("sleep 3600").grace_seconds(self.below(3) as i64 * 10);
        let pod = if block { pod.device(name, "/dev/data") } else { pod.mount(name, "/data") };
        let mut pod = pod.build();
        if let Some(spec) = &mut pod.spec {
            spec.automount_service_account_token = Some(false);
            if let Some(node) = node {
                spec.node_selector.get_or_insert_default().insert(HOSTNAME.into(), node_name(node));
            }
        }
        let made = cluster.person().create(&pod).await;
        cluster.shared.say(format_args!("person creates pod {pod_name} for node {node:?}: {}", made.is_ok()));
    }

    /// Beside the first one: on its node, or on another one, which a claim for one node must refuse.
    pub(super) async fn second_pod(&mut self, cluster: &Cluster, name: &str) {
        let here = self.pods(cluster, name).first().and_then(|pod| number(pod));
        let node = match (here, self.below(2)) {
            (Some(node), 0) => Some(node),
            (Some(node), _) => Some((node + 1) % NODES),
            (None, _) => self.any_node(),
        };
        for _ in 0..2 {
            self.pod(cluster, name, node).await;
        }
    }

    fn pods(&self, cluster: &Cluster, name: &str) -> Vec<Arc<Pod>> {
        let oracle = cluster.shared.oracle();
        oracle.pods.values().filter(|pod| pod.name().starts_with(name)).cloned().collect()
    }

    pub(super) async fn delete_pods(&mut self, cluster: &Cluster, name: &str, grace: Option<u32>) {
        for pod in self.pods(cluster, name) {
            let forced = if grace == Some(0) { " by force" } else { "" };
            cluster.shared.say(format_args!("person deletes pod {}{forced}", pod.name()));
            delete(&cluster.person(), pod.as_ref(), grace).await;
        }
    }

    /// The claim is wanted on another node, after the first pod has gone or while it still ends.
    pub(super) async fn move_pods(&mut self, cluster: &Cluster, name: &str) {
        let old = self.pods(cluster, name);
        let Some(from) = old.first().and_then(|pod| number(pod)) else {
            return self.pod(cluster, name, None).await;
        };
        let grace = [None, None, Some(0)][self.below(3) as usize];
        self.delete_pods(cluster, name, grace).await;
        if self.below(2) == 0 {
            let begun = Instant::now();
            while !self.pods(cluster, name).is_empty() && begun.elapsed() < GONE {
                tokio::time::sleep(LOOK).await;
            }
        }
        for _ in 0..2 {
            self.pod(cluster, name, Some((from + 1) % NODES)).await;
        }
    }

    /// The first node still has the volume mounted and cannot be asked.
    pub(super) async fn move_from_lost_node(&mut self, cluster: &Cluster, name: &str) {
        let Some(from) = self.pods(cluster, name).first().and_then(|pod| number(pod)) else { return };
        cluster.shared.say(format_args!("node {from} is cut off"));
        let cut_off = |program| program == Program::Kubelet(from);
        cluster
            .processes()
            .values()
            .filter(|one| cut_off(one.program))
            .for_each(|one| one.life.cut_off(LOST));
        self.delete_pods(cluster, name, Some(0)).await;
        self.pod(cluster, name, Some((from + 1) % NODES)).await;
    }
}

/// The node that a pod runs on.
fn number(pod: &Pod) -> Option<usize> {
    (0..NODES).find(|node| node_name(*node) == pod::node_name(pod))
}
