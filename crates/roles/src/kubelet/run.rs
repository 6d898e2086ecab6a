//! Starts the roles of the kubelet with what they share.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{CSINode, Node, Pod};
use bowline_machinery::informers::AlreadyWatched;
use bowline_machinery::{Ports, RunError, Scope, role};
use k8s_openapi::api::core::v1::Taint;
use tokio::sync::{Notify, oneshot};

use super::records::PodRecords;
use super::server::{self, Serving};
use super::tenants::Tenants;
use crate::crew::Crew;
use crate::kubelet::localvolumes::{self, Local};
use crate::kubelet::nodestatus::{self, InUse, Switch};
use crate::kubelet::pluginmanager::{self, Drivers};
use crate::kubelet::pods;
use crate::kubelet::volumemanager::{self, Mounts};
use crate::kubelet::volumestats::{self, Stats};

/// Upstream's default limit of pods on a node.
const PODS_MAX: u32 = 110;
/// How long containers get to end when the node agent stops.
const DRAIN_GRACE: Duration = Duration::from_secs(5);
/// How long the end waits until a volume that is unmounted is also forgotten.
const FORGET: Duration = Duration::from_secs(5);

/// What the kubelet needs to know. Paths are as upstream has them below `kubelet_dir`.
#[derive(Debug, Clone)]
pub struct KubeletConfig {
    /// `--hostname-override`
    pub node_name: String,
    /// The node's InternalIP.
    pub node_ip: IpAddr,
    /// `--node-labels`
    pub node_labels: BTreeMap<String, String>,
    /// `--register-with-taints`: taints of the Node when it is created.
    pub node_taints: Vec<Taint>,
    /// `--max-pods`
    pub pods_max: u32,
    /// Whether the node is reported as not ready at the end; upstream leaves that to the lease.
    pub reports_stop: bool,
    /// `--register-node`: without it, the Node must come from elsewhere.
    pub register: bool,
    /// `--root-dir`, upstream `/var/lib/kubelet`
    pub kubelet_dir: PathBuf,
    /// `podLogsDir`, upstream `/var/log/pods`
    pub pod_logs_dir: PathBuf,
    /// Directories besides `kubelet_dir` that containers must not see: keys, data of the API server and of drivers.
    pub data_dir_hidden: Vec<PathBuf>,
    /// How long containers get to end when the node agent stops.
    pub drain_grace: Duration,
    /// The gate CSIVolumeHealth: whether pods are told that a driver calls their volume abnormal.
    pub volume_health: bool,
    /// `--allow-privileged`: whether containers may have what reaches beyond them.
    pub allow_privileged: bool,
    /// Turned off by those who start it only to end its containers.
    pub switch: Switch,
    /// Where to answer those who want logs or to run something inside; nobody is answered without it.
    pub serving: Option<Serving>,
}

impl KubeletConfig {
    pub fn new(node_name: impl Into<String>, kubelet_dir: impl Into<PathBuf>) -> Self {
        let kubelet_dir = kubelet_dir.into();
        Self {
            node_name: node_name.into(),
            node_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            pods_max: PODS_MAX,
            reports_stop: true,
            register: true,
            pod_logs_dir: kubelet_dir.join("pod-logs"),
            kubelet_dir,
            data_dir_hidden: Vec::new(),
            drain_grace: DRAIN_GRACE,
            volume_health: false,
            allow_privileged: false,
            switch: Switch::default(),
            serving: None,
        }
    }
}

/// A running kubelet.
pub struct Kubelet {
    switch: Switch,
    tenants: Tenants,
    mounts: Mounts,
    local: Local,
    in_use: InUse,
    changed: Arc<Notify>,
}

/// Starts all roles in `crew`; they run until `ports.stop` is cancelled. Returns when the mounts and containers of an earlier
/// process are known.
pub async fn run_kubelet(ports: Ports, config: KubeletConfig, crew: &Crew) -> Result<Kubelet, RunError> {
    let ports = within_rights(&ports, &config.node_name)?;
    let (drivers, in_use, tenants) = (Drivers::default(), InUse::default(), Tenants::default());
    let records = PodRecords::load(&ports.host, &config.kubelet_dir).await?;
    records.report_unknown(&config.kubelet_dir.join("pods")).await;
    let switch = config.switch.clone();
    let node_name = config.node_name.clone();

    let server = match &config.serving {
        Some(serving) => Some(server::bind(&ports.host, serving).await?),
        None => None,
    };
    let port = server.as_ref().map(|server| server.port);

    let status = nodestatus::Settings {
        node_name: node_name.clone(),
        kubelet_port: port,
        address: config.node_ip,
        labels: config.node_labels.clone(),
        taints: config.node_taints.clone(),
        pods_max: config.pods_max,
        reports_stop: config.reports_stop,
        register: config.register,
        in_use: in_use.clone(),
        switch: switch.clone(),
    };
    crew.run(role::run::<nodestatus::Status>(ports.clone(), status));

    let plugins = pluginmanager::Settings {
        node_name: node_name.clone(),
        registry: config.kubelet_dir.join("plugins_registry"),
        drivers: drivers.clone(),
    };
    crew.run(role::run::<pluginmanager::Manager>(ports.clone(), plugins));

    let (view, shown) = oneshot::channel();
    let settings = volumemanager::Settings {
        node_name: node_name.clone(),
        kubelet_dir: config.kubelet_dir.clone(),
        drivers: drivers.clone(),
        in_use: in_use.clone(),
        tenants: tenants.clone(),
        records: records.clone(),
        view,
    };
    crew.run(role::run::<volumemanager::Manager>(ports.clone(), settings));
    let (view, shown_local) = oneshot::channel();
    let own = localvolumes::Settings {
        node_name: node_name.clone(),
        kubelet_dir: config.kubelet_dir.clone(),
        tenants: tenants.clone(),
        records: records.clone(),
        view,
    };
    crew.run(role::run::<localvolumes::Manager>(ports.clone(), own));
    let (Ok(mounts), Ok(local)) = (shown.await, shown_local.await) else {
        return Err(RunError::Refused("the volume manager ended while starting".into()));
    };

    let stats = Stats::default();
    let health = config.volume_health;
    let settings = volumestats::Settings { drivers, mounts: mounts.clone(), stats: stats.clone(), health };
    crew.run(role::run::<volumestats::Calculator>(ports.clone(), settings));

    let mut hidden = vec![config.kubelet_dir.clone()];
    hidden.extend(config.data_dir_hidden);
    let pod_config = pods::Config {
        node_name,
        kubelet_dir: config.kubelet_dir,
        log_dir: config.pod_logs_dir,
        hidden,
        drain_grace: config.drain_grace,
        allow_privileged: config.allow_privileged,
    };
    let changed = Arc::new(Notify::new());
    let wake = changed.clone();
    tenants.on_change(move |_| wake.notify_one());
    let wake = changed.clone();
    mounts.on_change(move |_| wake.notify_one());
    let wake = changed.clone();
    local.on_change(move |_| wake.notify_one());
    let wake = changed.clone();
    in_use.on_wanted(move || wake.notify_one());
    let (view, shown) = oneshot::channel();
    let settings = pods::Settings {
        config: pod_config,
        mounts: mounts.clone(),
        local: local.clone(),
        tenants: tenants.clone(),
        records,
        view,
    };
    crew.run(role::run::<pods::Pods>(ports.clone(), settings));
    if let Some(server) = server {
        crew.run(async move {
            match shown.await {
                Ok(pods) => server.run(pods, stats, ports).await,
                // The pod workers ended while starting, and say why themselves.
                Err(_) => Ok(()),
            }
        });
    }
    Ok(Kubelet { switch, tenants, mounts, local, in_use, changed })
}

/// What a node may watch: its pods and its own Node. CSINode and leases are read, never watched.
fn within_rights(ports: &Ports, node: &str) -> Result<Ports, RunError> {
    let ports = ports.with_own_caches();
    let refused = |error: AlreadyWatched| RunError::Refused(error.to_string());
    ports.informers.restrict::<Pod>(Scope::fields(format!("spec.nodeName={node}"))).map_err(refused)?;
    ports.informers.restrict::<Node>(Scope::fields(format!("metadata.name={node}"))).map_err(refused)?;
    ports.informers.unwatched::<CSINode>();
    Ok(ports)
}

impl Kubelet {
    /// Leaves the machine clean: ends all containers, unpublishes and unstages all volumes, keeps the API objects, so
    /// that a later start goes on. Call it before cancelling `ports.stop`; `false` when time ran out.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.switch.turn_off();
        self.tenants.evict();
        let clean = async {
            // Right after the start, containers of an earlier process may not be known yet.
            let busy = || !self.tenants.counted() || !self.tenants.all().is_empty();
            while busy() || self.mounts.any_left() || self.local.any_mounted() {
                self.changed.notified().await;
            }
        };
        if tokio::time::timeout(timeout, clean).await.is_err() {
            return false;
        }
        // The node's last report must not list a volume that is gone: with it, no other node could attach the volume.
        let forgotten = async {
            while self.in_use.any() {
                self.changed.notified().await;
            }
        };
        let _ = tokio::time::timeout(FORGET, forgotten).await;
        true
    }

    /// Whether the API server has the node's last report; asked when all roles have ended.
    pub fn reported(&self) -> bool {
        self.switch.reported()
    }

    /// The view of a pod's volumes, for whoever shows it.
    pub fn mounts(&self) -> &Mounts {
        &self.mounts
    }
}
