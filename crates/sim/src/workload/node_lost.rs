//! Nodes that cannot be asked: out of reach, or without power.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Node, keys};
use bowline_machinery::Effects;
use bowline_machinery::effect::Part;
use k8s_openapi::api::core::v1::Taint;
use tokio::time::Instant;

use super::Workload;
use super::pods::number;
use crate::cluster::{Cluster, NODES, node_name};
use crate::process::Program;

/// How long a lost node is out of reach.
const LOST: Duration = Duration::from_secs(40);
/// People take the taint away before the node starts again.
const BEFORE: Duration = Duration::from_secs(15);
/// How often people try to write a node that others write, too.
const TRIES: usize = 20;

impl Workload {
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

    /// As upstream's manual says for a node that has no power: the taint, then its pods are deleted by force, and what
    /// they had mounted may be detached without its kubelet's word.
    pub(super) async fn out_of_service(&mut self, cluster: &Arc<Cluster>, name: &str) {
        let dark = |node: &usize| cluster.machine_of(Program::Kubelet(*node)).dark_until();
        let found = (0..NODES).find_map(|node| Some((node, dark(&node)?)));
        let Some((node, lit)) = found.filter(|(_, lit)| *lit > Instant::now() + 2 * BEFORE) else {
            return self.move_pods(cluster, name).await;
        };
        cluster.shared.say(format_args!("person taints node {node} out of service"));
        let person = cluster.person();
        taint(&person, node, true).await;
        tokio::spawn(async move {
            tokio::time::sleep_until(lit - BEFORE).await;
            taint(&person, node, false).await;
        });
        self.delete_pods(cluster, name, Some(0)).await;
        self.pod(cluster, name, Some((node + 1) % NODES)).await;
    }
}

/// Puts the taint on a node, or takes it away.
async fn taint(person: &Effects, node: usize, on: bool) {
    for _ in 0..TRIES {
        let Ok(Some(mut object)) = person.get_live::<Node>("", &node_name(node)).await else { return };
        let taints = object.spec.get_or_insert_default().taints.get_or_insert_default();
        taints.retain(|taint| taint.key != keys::TAINT_OUT_OF_SERVICE);
        if on {
            let (key, effect) = (keys::TAINT_OUT_OF_SERVICE.into(), "NoExecute".into());
            taints.push(Taint { key, effect, ..Taint::default() });
        }
        if person.replace(Part::Main, &object).await.is_ok() {
            return;
        }
    }
}
