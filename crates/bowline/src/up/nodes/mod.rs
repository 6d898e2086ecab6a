//! `bowline up --nodes N`: further nodes of the same machine, each a kubelet in a process of its own.
//!
//! A node has a directory below `<data-dir>/nodes`, an address of the loopback network, a certificate with the rights of a
//! node, and a way to the API server that can be cut (`bowline node cut NAME`). The drivers of this process answer as each of
//! the nodes on a socket of its own, so volumes move between them.
//!
//! # Crash safety
//!
//! Children notice that this process has died and end, without ending their containers: those wait for the next start, as
//! those of the first node do.

mod child;
pub mod control;
mod relay;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bowline_api::{CSINode, Node, node};
use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_drivers::{local, share};
use bowline_host::Host;
use bowline_host::real;
use bowline_machinery::client::Subject;
use bowline_machinery::supervise::supervised;
use bowline_machinery::{Ports, RunError};
use bowline_roles::sidecars::node_driver_registrar::{self, Named};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Config;
use super::link::Issuer;
use super::subjects::NODES;
use child::Kubelet;
use relay::Relay;

/// The drivers that answer as every node.
const DRIVERS: [&str; 2] = [local::NAME, share::NAME];

/// A further node.
#[derive(Debug, Clone)]
pub struct FurtherNode {
    pub name: String,
    dir: PathBuf,
    address: IpAddr,
}

impl FurtherNode {
    /// Those that the settings ask for, besides the first one.
    pub fn of(config: &Config) -> Vec<Self> {
        let node = |number: u8| {
            let name = format!("{}-{number}", config.node_name);
            let dir = config.data_dir.join("nodes").join(&name);
            Self { name, dir, address: Ipv4Addr::new(127, 0, 0, number).into() }
        };
        (2..=config.nodes).map(node).collect()
    }

    fn root(&self) -> PathBuf {
        self.dir.join("kubelet")
    }

    /// Where a driver answers as this node.
    pub fn socket(&self, driver: &str) -> PathBuf {
        self.root().join("plugins").join(driver).join("csi.sock")
    }
}

/// The running nodes.
pub struct Nodes {
    nodes: Vec<FurtherNode>,
    children: TaskTracker,
    stop: CancellationToken,
    /// Of what the children need until they have ended.
    lines: CancellationToken,
}

impl Nodes {
    /// Starts a kubelet for each, and what presents the drivers to it.
    pub async fn start(config: &Config, ports: &Ports, server: SocketAddr, issuer: &Issuer) -> Result<Self> {
        let nodes = FurtherNode::of(config);
        let children = TaskTracker::new();
        let (stop, lines) = (CancellationToken::new(), CancellationToken::new());
        let started = Self { nodes, children, stop, lines };
        if started.nodes.is_empty() {
            return Ok(started);
        }
        let authority = Authority::open(&config.data_dir, ports.host.clock.now())?;
        let mut relays = BTreeMap::new();
        for node in &started.nodes {
            let relay = Relay::start(server, started.lines.clone()).await?;
            let kubelet = prepare(config, &ports.host, node, &relay, &authority, issuer)
                .with_context(|| format!("prepare node `{}`", node.name))?;
            relays.insert(node.name.clone(), relay);
            started.children.spawn(kubelet.keep(started.stop.clone()));
            for driver in DRIVERS {
                present(ports, node, driver)?;
            }
        }
        control::serve(&ports.host, &config.data_dir, relays, started.lines.clone()).await?;
        Ok(started)
    }

    pub fn names(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    /// Waits until all are Ready and know the drivers.
    pub async fn ready(&self, ports: &Ports) {
        for further in &self.nodes {
            let name = further.name.as_str();
            let ready = |n: &Node| node::ready(n) && node::taints(n).is_empty();
            ports.informers.of::<Node>().until(|cache| cache.named(name).filter(|n| ready(n))).await;
            let has = |n: &CSINode, name: &str| n.spec.drivers.iter().any(|driver| driver.name == name);
            let knows = |n: &CSINode| DRIVERS.iter().all(|name| has(n, name));
            ports.informers.of::<CSINode>().until(|cache| cache.named(name).filter(|n| knows(n))).await;
        }
    }

    /// Lets all children end their containers and unmount their volumes. They still need the API server and the driver.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.children.close();
        self.children.wait().await;
        self.lines.cancel();
    }
}

/// Writes what the child needs to know, for its user alone.
fn prepare(
    config: &Config,
    host: &Host,
    node: &FurtherNode,
    relay: &Relay,
    authority: &Authority,
    issuer: &Issuer,
) -> Result<Kubelet> {
    let file = |name: &str| node.dir.join(name);
    real::private_parents(&file("kubeconfig")).context("create its directory")?;
    let now = host.clock.now();
    let client = authority.issue_client(&Subject::Node(node.name.clone()).to_string(), NODES, now)?;
    write_kubeconfig(&file("kubeconfig"), &format!("https://{}", relay.address), authority, &client)?;
    let serving = issuer.server(node.address, now)?;
    for (name, text) in [
        ("client-ca.crt", issuer.authority()),
        ("kubelet.crt", &serving.certificate),
        ("kubelet.key", &serving.key),
    ] {
        real::write_private(&file(name), text.as_bytes()).with_context(|| format!("write `{name}`"))?;
    }
    let flag = |name: &str, value: &Path| {
        let mut word = OsString::from(format!("--{name}="));
        word.push(value);
        word
    };
    let words = vec![
        flag("kubeconfig", &file("kubeconfig")),
        flag("root-dir", &node.root()),
        flag("client-ca-file", &file("client-ca.crt")),
        flag("tls-cert-file", &file("kubelet.crt")),
        flag("tls-private-key-file", &file("kubelet.key")),
        format!("--hostname-override={}", node.name).into(),
        format!("--node-ip={}", node.address).into(),
        format!("--address={}", node.address).into(),
        "--port=0".into(),
        "--healthz-port=0".into(),
        "--ends-with-stdin=true".into(),
    ];
    let program = match &config.shim {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("find this program")?,
    };
    Ok(Kubelet { name: node.name.clone(), program, words, log: file("kubelet.log") })
}

/// What upstream runs beside the driver on each node.
fn present(ports: &Ports, node: &FurtherNode, driver: &str) -> Result<(), RunError> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (socket, registry) = (text(&node.socket(driver)), text(&node.root().join("plugins_registry")));
    let paths = ["--csi-address", &socket, "--kubelet-registration-path", &socket];
    let paths = [paths.as_slice(), &["--plugin-registration-path", &registry]].concat();
    let flags: node_driver_registrar::Flags = bowline_roles::flags(&paths)?;
    let with = ports.clone();
    tokio::spawn(supervised(node_driver_registrar::NAME, ports, move || {
        node_driver_registrar::run(with.clone(), flags.clone(), Named::default())
    }));
    Ok(())
}
