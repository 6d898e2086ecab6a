//! The last journey: once nothing goes wrong any more, every claim that has a volume can be used, on each node.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, ObjectKey, PersistentVolumeClaim, build, pod, volume};
use tokio::time::Instant;

use super::Workload;
use super::pods::number;
use crate::cluster::{CLASS_AT_ONCE, Cluster, NODES, delete};

const LOOK: Duration = Duration::from_millis(500);
/// A claim that is made after all faults.
const NEW: &str = "new";

impl Workload {
    /// All pods go; then each claim gets one, which has to run, and then one on another node. Says which do not by then.
    pub async fn last_journey(&mut self, cluster: &Arc<Cluster>, within: Duration) -> Vec<String> {
        let lit = cluster.dark_until().unwrap_or_else(Instant::now);
        let deadline = lit + within;
        let pods: Vec<_> = cluster.shared.oracle().pods.values().cloned().collect();
        for pod in pods {
            delete(&cluster.person(), pod.as_ref(), None).await;
        }
        let gone = || cluster.shared.oracle().pods.is_empty();
        if !until(deadline, gone).await {
            let left: Vec<String> =
                cluster.shared.oracle().pods.keys().map(|key| format!("pod {key} does not go")).collect();
            return left;
        }
        let claim = build::claim(NEW).class(CLASS_AT_ONCE).build();
        let _ = cluster.person().create(&claim).await;
        let mut claims = usable(cluster);
        claims.push(NEW.to_owned());
        for round in 0..2 {
            let stuck = self.round(cluster, &claims, round, deadline).await;
            if !stuck.is_empty() {
                return stuck;
            }
        }
        Vec::new()
    }

    /// A pod for each claim: first anywhere, then where the first was not.
    async fn round(
        &mut self,
        cluster: &Cluster,
        claims: &[String],
        round: usize,
        deadline: Instant,
    ) -> Vec<String> {
        let name = |claim: &String, round: usize| format!("{claim}-last-{round}");
        for claim in claims {
            let before = round.checked_sub(1).and_then(|before| found(cluster, &name(claim, before)));
            let other = before.as_ref().and_then(|pod| number(pod)).map(|node| (node + 1) % NODES);
            if let Some(before) = before {
                delete(&cluster.person(), before.as_ref(), None).await;
            }
            self.named_pod(cluster, &name(claim, round), &[claim], other).await;
        }
        let runs = |claim: &&String| {
            found(cluster, &name(claim, round)).is_some_and(|pod| pod::phase(&pod) == "Running")
        };
        if until(deadline, || claims.iter().all(|claim| runs(&claim))).await {
            return Vec::new();
        }
        let stuck = claims.iter().filter(|claim| !runs(claim));
        stuck
            .map(|claim| format!("pod {} does not run although nothing is wrong", name(claim, round)))
            .collect()
    }
}

fn found(cluster: &Cluster, pod: &str) -> Option<Arc<bowline_api::Pod>> {
    cluster.shared.oracle().pods.get(&ObjectKey::new("default", pod)).cloned()
}

async fn until(deadline: Instant, reached: impl Fn() -> bool) -> bool {
    while !reached() {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}

/// Claims that have a volume for one node. What is for many nodes, or only to be read, the driver may refuse; what a
/// person has deleted is attached no more, because the attacher cannot put its finalizer on it.
fn usable(cluster: &Cluster) -> Vec<String> {
    let single = [volume::READ_WRITE_ONCE, volume::READ_WRITE_ONCE_POD];
    let fits = |claim: &&Arc<PersistentVolumeClaim>| {
        volume::bound(claim)
            && !claim.deleting()
            && volume::claim_access_modes(claim).iter().all(|mode| single.contains(&mode.as_str()))
    };
    let oracle = cluster.shared.oracle();
    let stays = |claim: &&Arc<PersistentVolumeClaim>| {
        let found = oracle.volumes.get(&ObjectKey::new("", volume::claim_volume(claim)));
        found.is_some_and(|found| !found.deleting())
    };
    oracle.claims.values().filter(fits).filter(stays).map(|claim| claim.name().to_owned()).collect()
}
