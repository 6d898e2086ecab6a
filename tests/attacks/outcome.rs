//! Runs one attack and tells what became of its pod.

use std::time::{Duration, Instant};

use bowline_api::{Meta, Namespace, PersistentVolumeClaim, Pod, build, pod};
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use serde_json::json;

use crate::support::objects::{create, delete, until, until_gone};
use crate::support::peers::peer;
use crate::support::{Cluster, PATIENCE};
use crate::{ATTACKER, Attack};

/// Ends of a container of which there is an event.
const TOLD: [&str; 2] = ["StartError", "OOMKilled"];

#[derive(Debug)]
pub struct Outcome {
    /// Waiting reason and message of the container that does not start.
    pub waiting: Option<(String, String)>,
    /// Reason of the end of its first container, such as `OOMKilled`.
    pub ended: Option<String>,
    /// Of all its containers.
    pub log: String,
    /// What warnings about the pod say.
    pub warnings: Vec<String>,
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

/// Runs the attacker's pod until it has ended or is refused, then removes it with its claims. With a script, the pod waits,
/// and the script is run in it by `kubectl exec`.
pub async fn attack(cluster: &Cluster, number: usize, attack: &Attack, script: Option<&str>) -> Outcome {
    let client = cluster.client().await;
    let name = format!("attack-{number}");
    namespace(&client, ATTACKER).await;
    for (claim, block) in attack.claims {
        make_claim(&client, ATTACKER, claim, *block).await;
    }
    make_pod(&client, ATTACKER, &name, attack.pod.clone()).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), ATTACKER);
    let runs = |pod: &Pod| script.is_some() && pod::phase(pod) == "Running";
    let settles = |pod: Option<&Pod>| pod.is_some_and(|pod| settled(pod) || runs(pod));
    let ends = until(&pods, &name, "to end or to be refused", settles).await;
    let mut outcome = outcome(&client, &pods, &name).await;
    if let Some(script) = script {
        outcome.log = exec(cluster, &name, script).await;
    }
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

/// What the script says, run beside the pod's own program.
async fn exec(cluster: &Cluster, pod: &str, script: &str) -> String {
    let mut kubectl = tokio::process::Command::new(peer("kubectl"));
    kubectl.arg("--kubeconfig").arg(cluster.kubeconfig()).args(["--namespace", ATTACKER, "exec", pod, "--"]);
    kubectl.args(["/usr/bin/perl", "-e", script]).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, kubectl.output()).await.expect("kubectl ends");
    let output = output.expect("kubectl runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Events are written in the background: a refusal may be in the status a moment earlier.
async fn warnings(client: &Client, pod: &Pod) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(client.clone(), ATTACKER);
    let refused = waiting(pod).is_some() || reasons(pod).any(|reason| TOLD.contains(&reason));
    let begun = Instant::now();
    loop {
        let all = events.list(&ListParams::default()).await.expect("list events");
        let about = |event: &Event| {
            event.type_.as_deref() == Some("Warning")
                && event.involved_object.uid.as_deref() == Some(pod.uid())
        };
        let found: Vec<String> =
            all.items.into_iter().filter(about).filter_map(|event| event.message).collect();
        if !refused || !found.is_empty() || begun.elapsed() > PATIENCE {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Why each container ended.
fn reasons(pod: &Pod) -> impl Iterator<Item = &str> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.reason.as_deref())
}

async fn outcome(client: &Client, pods: &Api<Pod>, name: &str) -> Outcome {
    let pod = pods.get(name).await.expect("the pod");
    let (ended, waiting) = (reasons(&pod).next().map(str::to_owned), waiting(&pod));
    let mut log = String::new();
    if waiting.is_none() {
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let wanted = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
            log += &pods.logs(name, &wanted).await.unwrap_or_default();
        }
    }
    Outcome { waiting, ended, log, warnings: warnings(client, &pod).await }
}
