//! Pods: two of one claim, moves between nodes, deletions by force.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, ObjectKey, Pod, build, pod, volume};
use tokio::time::Instant;

use super::{NAMES, Workload};
use crate::cluster::{Cluster, NODES, Running, delete, node_name};
use crate::process::Program;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// One pod of so many has two claims.
const TWO_CLAIMS_OF: u64 = 6;
/// How long people wait for a pod to be gone.
const GONE: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(200);

impl Workload {
    /// Often one of them, so that volumes have to move.
    pub(super) fn any_node(&mut self) -> Option<usize> {
        let node = self.below(NODES as u64 + 1) as usize;
        (node < NODES).then_some(node)
    }

    /// A pod with the claim, and sometimes with another one.
    pub(super) async fn pod(&mut self, cluster: &Cluster, name: &str, node: Option<usize>) {
        let pod_name = format!("{name}-{}", self.below(2));
        let mut claims = vec![name];
        if self.below(TWO_CLAIMS_OF) == 0 {
            claims.push(self.one(&NAMES));
        }
        claims.dedup();
        self.named_pod(cluster, &pod_name, &claims, node).await;
    }

    /// The same under a name of its own.
    pub(super) async fn named_pod(
        &mut self,
        cluster: &Cluster,
        pod_name: &str,
        claims: &[&str],
        node: Option<usize>,
    ) {
        let mut pod = build::pod(pod_name).shell("sleep 3600").grace_seconds(self.below(3) as i64 * 10);
        for &name in claims {
            let claim = cluster.shared.oracle().claims.get(&ObjectKey::new("default", name)).cloned();
            let block = claim.is_some_and(|claim| volume::claim_mode(&claim) == volume::BLOCK);
            let (device, path) = (format!("/dev/{name}"), format!("/data/{name}"));
            pod = if block { pod.device(name, &device) } else { pod.mount(name, &path) };
        }
        let mut pod = pod.build();
        if let Some(spec) = &mut pod.spec {
            spec.automount_service_account_token = Some(false);
            if let Some(node) = node {
                spec.node_selector.get_or_insert_default().insert(HOSTNAME.into(), node_name(node));
            }
        }
        let made = cluster.person().create(&pod).await;
        cluster.shared.say(format_args!(
            "person creates pod {pod_name} with {claims:?} for node {node:?}: {}",
            made.is_ok()
        ));
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

    pub(super) fn pods(&self, cluster: &Cluster, name: &str) -> Vec<Arc<Pod>> {
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

    /// `systemctl restart`: mostly the kubelet below the pods, which often go while it is away.
    pub(super) async fn restart(&mut self, cluster: &Cluster, name: &str) {
        let here = self.pods(cluster, name).first().and_then(|pod| number(pod));
        let all: Vec<Program> = cluster.processes().values().map(|one| one.program).collect();
        let program = match here {
            Some(node) if self.below(4) > 0 => Program::Kubelet(node),
            _ => self.one(&all),
        };
        cluster.shared.say(format_args!("person restarts {}", program.name()));
        cluster.processes().values().filter(|one| one.program == program).for_each(Running::kill);
        match self.below(4) {
            0 => {}
            1 => self.delete_pods(cluster, name, None).await,
            _ => self.delete_pods(cluster, name, Some(0)).await,
        }
    }
}

/// The node that a pod runs on.
pub(super) fn number(pod: &Pod) -> Option<usize> {
    (0..NODES).find(|node| node_name(*node) == pod::node_name(pod))
}
