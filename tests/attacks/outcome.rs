//! Runs one attack and tells what became of its pod.

use bowline_api::{Namespace, PersistentVolumeClaim, Pod, build};
use kube::{Api, Client};
use serde_json::json;

use crate::support::Cluster;
use crate::support::objects::{create, delete, until, until_gone};
use crate::{ATTACKER, Attack};

#[derive(Debug)]
pub struct Outcome {
    /// Waiting reason and message of the container that does not start.
    pub waiting: Option<(String, String)>,
    /// Reason of the end, such as `OOMKilled`.
    pub ended: Option<String>,
    pub log: String,
}

pub async fn namespace(client: &Client, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("namespace");
    create::<Namespace>(&Api::all(client.clone()), &namespace).await.expect("create the namespace");
}

pub async fn make_claim(client: &Client, namespace: &str, name: &str, block: bool) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = build::claim(name).size("32Mi");
    let mut claim = if block { claim.block().build() } else { claim.build() };
    claim.metadata.namespace = Some(namespace.into());
    create(&claims, &claim).await.expect("create the claim");
}

pub async fn make_pod(client: &Client, namespace: &str, name: &str, spec: serde_json::Value) {
    let pod = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    create(&Api::namespaced(client.clone(), namespace), &pod).await.expect("create the pod");
}

/// Runs the attacker's pod until it has ended or is refused, then removes it with its claims.
pub async fn attack(cluster: &Cluster, number: usize, attack: &Attack) -> Outcome {
    let client = cluster.client().await;
    let name = format!("attack-{number}");
    namespace(&client, ATTACKER).await;
    for (claim, block) in attack.claims {
        make_claim(&client, ATTACKER, claim, *block).await;
    }
    make_pod(&client, ATTACKER, &name, attack.pod.clone()).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), ATTACKER);
    let ends = until(&pods, &name, "to end or to be refused", |pod| pod.is_some_and(settled)).await;
    let mut outcome = outcome(&pods, &name).await;
    if let Err(error) = ends {
        outcome.log = format!("BROKEN: {error}\n{}", outcome.log);
    }
    delete(&pods, &name).await.expect("delete the pod");
    until_gone(&pods, &name).await.expect(attack.name);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, ATTACKER);
    for (claim, _) in attack.claims {
        delete(&claims, claim).await.expect("delete the claim");
        until_gone(&claims, claim).await.expect(attack.name);
    }
    outcome
}

fn settled(pod: &Pod) -> bool {
    ["Succeeded", "Failed"].contains(&bowline_api::pod::phase(pod)) || waiting(pod).is_some()
}

/// A container that will not start; one that only has not started yet is `ContainerCreating`.
fn waiting(pod: &Pod) -> Option<(String, String)> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let waiting = statuses.iter().find_map(|status| status.state.as_ref()?.waiting.as_ref())?;
    let reason = waiting.reason.clone().unwrap_or_default();
    let starts = ["ContainerCreating", "PodInitializing", ""].contains(&reason.as_str());
    (!starts).then(|| (reason, waiting.message.clone().unwrap_or_default()))
}

async fn outcome(pods: &Api<Pod>, name: &str) -> Outcome {
    let pod = pods.get(name).await.expect("the pod");
    let ended = pod.status.as_ref().and_then(|status| {
        let state = status.container_statuses.as_ref()?.first()?.state.as_ref()?;
        state.terminated.as_ref()?.reason.clone()
    });
    let waiting = waiting(&pod);
    let log = match waiting {
        Some(_) => String::new(),
        None => pods.logs(name, &Default::default()).await.unwrap_or_default(),
    };
    Outcome { waiting, ended, log }
}
