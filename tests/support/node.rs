//! Plays the kubelet of one node, with a kubelet's rights, as far as the control plane sees it: node, lease, CSINode,
//! volumesInUse and pod status. Nothing is mounted.
//!
//! `bowline kubelet` takes this place when it runs alone.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_api::{CSINode, Lease, Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, volume};
use bowline_host::Host;
use bowline_host::real::{RealConfig, host};
use bowline_machinery::csi::Driver;
use bowline_proto::csi::v1::NodeGetInfoRequest;
use bowline_proto::csi::v1::node_client::NodeClient;
use bowline_proto::pluginregistration::registration_client::RegistrationClient;
use bowline_proto::pluginregistration::{InfoRequest, RegistrationStatus};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::PATIENCE;
use super::upstream::{UpstreamServer, client_of};

const PAUSE: Duration = Duration::from_millis(200);

/// Runs until it is dropped.
pub struct TestNode {
    task: tokio::task::JoinHandle<()>,
}

struct Kubelet {
    name: String,
    client: Client,
    host: Host,
}

impl TestNode {
    /// Registers the node, and the driver whose registrar serves on `socket`.
    pub async fn start(server: &UpstreamServer, name: &str, socket: &Path) -> Self {
        let kubeconfig = server.user(&format!("system:node:{name}"), "system:nodes");
        let host = host(RealConfig::new(server.dir.path())).expect("this machine");
        let kubelet = Kubelet { name: name.into(), client: client_of(&kubeconfig).await, host };
        kubelet.register().await.expect("the node registers");
        super::until_exists(socket).await;
        kubelet.register_driver(socket.to_owned()).await.expect("the driver registers");
        let task = tokio::spawn(async move {
            let mut told = String::new();
            loop {
                let error = kubelet.pass().await.err().map(|error| error.to_string()).unwrap_or_default();
                if error != told && !error.is_empty() {
                    let _ = writeln!(std::io::stderr(), "kubelet of {}: {error}", kubelet.name);
                }
                told = error;
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { task }
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a whole object")
}

impl Kubelet {
    async fn register(&self) -> kube::Result<()> {
        let labels = json!({"kubernetes.io/hostname": self.name});
        let annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
        let metadata = json!({"name": self.name, "labels": labels, "annotations": annotations});
        let nodes: Api<Node> = Api::all(self.client.clone());
        let made = nodes.create(&PostParams::default(), &object(json!({"metadata": metadata}))).await?;
        let capacity = json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"});
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now});
        let status =
            json!({"status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}});
        nodes.patch_status(&self.name, &PatchParams::default(), &Patch::Merge(status)).await?;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let spec = json!({"holderIdentity": self.name, "leaseDurationSeconds": 40});
        let lease = json!({"metadata": {"name": self.name}, "spec": spec});
        leases.create(&PostParams::default(), &object(lease)).await?;
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": made.uid()});
        let csi_nodes: Api<CSINode> = Api::all(self.client.clone());
        let metadata = json!({"name": self.name, "ownerReferences": [owner]});
        let csi_node = object(json!({"metadata": metadata, "spec": {"drivers": []}}));
        csi_nodes.create(&PostParams::default(), &csi_node).await.map(drop)
    }

    async fn register_driver(&self, socket: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
        let mut registrar = RegistrationClient::new(Driver::at(&self.host, socket).channel());
        let info = tokio::time::timeout(PATIENCE, registrar.get_info(InfoRequest {})).await??.into_inner();
        let mut driver = NodeClient::new(Driver::at(&self.host, &info.endpoint).channel());
        let node = driver.node_get_info(NodeGetInfoRequest {}).await?.into_inner();
        let segments = node.accessible_topology.unwrap_or_default().segments;
        let labels = json!({"metadata": {"labels": segments}});
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch(&self.name, &PatchParams::default(), &Patch::Merge(labels)).await?;
        let keys: Vec<&String> = segments.keys().collect();
        let driver = json!({"name": info.name, "nodeID": node.node_id, "topologyKeys": keys});
        let csi_nodes: Api<CSINode> = Api::all(self.client.clone());
        let drivers = Patch::Merge(json!({"spec": {"drivers": [driver]}}));
        csi_nodes.patch(&self.name, &PatchParams::default(), &drivers).await?;
        let registered = RegistrationStatus { plugin_registered: true, error: String::new() };
        registrar.notify_registration_status(registered).await?;
        Ok(())
    }

    async fn pass(&self) -> kube::Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let renewed = Patch::Merge(json!({"spec": {"renewTime": now}}));
        leases.patch(&self.name, &PatchParams::default(), &renewed).await?;

        let pods: Api<Pod> = Api::all(self.client.clone());
        let mine = ListParams::default().fields(&format!("spec.nodeName={}", self.name));
        let pods = pods.list(&mine).await?.items;
        let mut wanted = BTreeSet::new();
        for pod in pods.iter().filter(|pod| !pod.deleting()) {
            wanted.extend(self.volumes_of(pod).await?);
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(&self.name).await?;
        let status = node.status.unwrap_or_default();
        let reported: BTreeSet<String> = status.volumes_in_use.unwrap_or_default().into_iter().collect();
        if reported != wanted {
            let status = Patch::Merge(json!({"status": {"volumesInUse": wanted}}));
            nodes.patch_status(&self.name, &PatchParams::default(), &status).await?;
        }
        let attached: BTreeSet<String> =
            status.volumes_attached.unwrap_or_default().into_iter().map(|volume| volume.name).collect();
        for pod in pods {
            self.settle(&pod, &attached).await?;
        }
        Ok(())
    }

    /// Ends a pod that is to go; one whose volumes are attached runs.
    async fn settle(&self, pod: &Pod, attached: &BTreeSet<String>) -> kube::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pod.namespace());
        if pod.deleting() {
            return api.delete(pod.name(), &DeleteParams::default().grace_period(0)).await.map(drop);
        }
        let volumes = self.volumes_of(pod).await?;
        let claims = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let claims = claims.filter(|volume| volume.persistent_volume_claim.is_some()).count();
        if volumes.len() == claims && volumes.is_subset(attached) && bowline_api::pod::phase(pod) != "Running"
        {
            let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
            api.patch_status(pod.name(), &PatchParams::default(), &running).await?;
        }
        Ok(())
    }

    /// The unique names of the volumes of a pod that are bound.
    async fn volumes_of(&self, pod: &Pod) -> kube::Result<BTreeSet<String>> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), pod.namespace());
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let mut names = BTreeSet::new();
        let mentioned = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        for claim in mentioned.filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
            let claim = claims.get(&claim.claim_name).await?;
            if !volume::bound(&claim) {
                continue;
            }
            let volume = volumes.get(volume::claim_volume(&claim)).await?;
            if let Some(csi) = volume.spec.and_then(|spec| spec.csi) {
                names.insert(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle));
            }
        }
        Ok(names)
    }
}
