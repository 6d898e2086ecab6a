//! `bowline up --nodes N`: further nodes of the same machine, each a kubelet in a process of its own.
//!
//! A node has a directory below `<data-dir>/nodes`, an address of the loopback network, a certificate with the rights of a
//! node, and a way to the API server that can be cut (`bowline node cut NAME`). The drivers of this process answer as each of
//! the nodes on a socket of its own, so volumes move between them.
//!
//! A node that was run before and is not asked for any more is looked after once: a kubelet starts, ends its containers,
//! unmounts their volumes and reports the node as not ready. Its objects and its directory stay, so that a later start with
//! more nodes goes on from there.
//!
//! # Crash safety
//!
//! Children notice that this process has died and end, without ending their containers: those wait for the next start, as
//! those of the first node do.

mod child;
pub mod control;
pub mod left_out;
mod members;
mod relay;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_api::{Node, node};
use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_drivers::{local, share};
use bowline_host::Host;
use bowline_host::real;
use bowline_machinery::client::Subject;
use bowline_machinery::supervise::supervised;
use bowline_machinery::{Ports, RunError};
use bowline_roles::embedded::registered;
use bowline_roles::sidecars::node_driver_registrar::{self, Named};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Config;
use super::link::Issuer;
use super::subjects::NODES;
use child::Kubelet;
pub use members::{FurtherNode, Members};
use relay::Relay;

/// How long `up` waits for its nodes before it says which are missing.
const STARTED: Duration = Duration::from_secs(30);
/// The drivers that answer as every node.
const DRIVERS: [&str; 2] = [local::NAME, share::NAME];

/// A node whose kubelet can be started.
struct Ready {
    place: FurtherNode,
    /// Whether it is among `--nodes`; otherwise its containers are ended.
    wanted: bool,
}

/// What can fail before the roles start: then nothing is left running.
pub struct Prepared {
    kubelets: Vec<(Ready, Kubelet)>,
    relays: BTreeMap<String, Relay>,
    lines: CancellationToken,
}

impl Prepared {
    pub async fn make(
        config: &Config,
        members: Members,
        host: &Host,
        server: SocketAddr,
        issuer: &Issuer,
    ) -> Result<Self> {
        let lines = CancellationToken::new();
        let mut made = Self { kubelets: Vec::new(), relays: BTreeMap::new(), lines };
        let wanted = members.wanted.into_iter().map(|place| Ready { place, wanted: true });
        let dropped = members.dropped.into_iter().map(|place| Ready { place, wanted: false });
        let all: Vec<Ready> = wanted.chain(dropped).collect();
        if all.is_empty() {
            return Ok(made);
        }
        let authority = Authority::open(&config.data_dir, host.clock.now())?;
        for node in all {
            let name = node.place.name.clone();
            let relay = Relay::start(server, made.lines.clone()).await?;
            let kubelet = prepare(config, host, &node.place, &relay, &authority, issuer)
                .with_context(|| format!("prepare node `{name}`"))?;
            if !node.wanted {
                let count = config.nodes;
                tracing::info!(
                    "node `{name}` is not among --nodes={count}: its containers are ended, its pods stay; `kubectl delete pod --force` gives them up, a start with more nodes goes on with them"
                );
            }
            made.relays.insert(name, relay);
            made.kubelets.push((node, kubelet));
        }
        control::serve(host, &config.data_dir, made.relays.clone(), made.lines.clone()).await?;
        Ok(made)
    }
}

/// A node with a kubelet.
struct Running {
    name: String,
    log: PathBuf,
    wanted: bool,
    /// Says at its end whether the node was left clean.
    task: JoinHandle<bool>,
}

/// The running nodes.
pub struct Nodes {
    children: Vec<Running>,
    relays: BTreeMap<String, Relay>,
    stop: CancellationToken,
    /// Of what the children need until they have ended.
    lines: CancellationToken,
}

impl Nodes {
    /// Starts a kubelet for each, and what presents the drivers to it.
    pub fn start(prepared: Prepared, ports: &Ports) -> Result<Self> {
        let Prepared { kubelets, relays, lines } = prepared;
        let mut started = Self { children: Vec::new(), relays, stop: CancellationToken::new(), lines };
        for (node, kubelet) in kubelets {
            let presented = ports.stop.child_token();
            for driver in DRIVERS {
                present(&ports.until(presented.clone()), &node.place, driver)?;
            }
            let stop = started.stop.clone();
            let task = match node.wanted {
                true => tokio::spawn(kubelet.keep(stop)),
                false => tokio::spawn(async move {
                    let clean = kubelet.clear(stop).await;
                    presented.cancel();
                    clean
                }),
            };
            let (name, log) = (node.place.name.clone(), node.place.log());
            started.children.push(Running { name, log, wanted: node.wanted, task });
        }
        Ok(started)
    }

    pub fn names(&self) -> Vec<String> {
        self.wanted().map(|node| node.name.clone()).collect()
    }

    fn wanted(&self) -> impl Iterator<Item = &Running> {
        self.children.iter().filter(|node| node.wanted)
    }

    /// Waits for a while until all are Ready and know the drivers.
    pub async fn ready(&self, ports: &Ports) {
        let deadline = Instant::now() + STARTED;
        for Running { name, log, .. } in self.wanted() {
            let nodes = ports.informers.of::<Node>();
            let started = nodes.until(|cache| cache.named(name).filter(|n| node::started(n)));
            match tokio::time::timeout_at(deadline, started).await {
                Ok(_) => registered(ports, name, &DRIVERS).await,
                Err(_) => {
                    let log = log.display();
                    tracing::warn!(node = name, %log, waited = ?STARTED, "not Ready yet: its pods wait; its log says why");
                }
            }
        }
    }

    /// Lets all children end their containers and unmount their volumes, and says which nodes may have some left. They still
    /// need the API server and the driver.
    pub async fn stop(self) -> Vec<String> {
        // A kubelet that ended while it was cut off can only start with the API server, and only then end its containers.
        self.relays.values().for_each(|relay| relay.set_cut(false));
        self.stop.cancel();
        let mut left = Vec::new();
        for Running { name, task, .. } in self.children {
            // A task that panicked has not said that its node is clean.
            if !task.await.unwrap_or_default() {
                left.push(name);
            }
        }
        self.lines.cancel();
        left
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
        flag("hide-path", &config.data_dir),
        flag("hide-path", &config.kubelet_dir),
        format!("--hostname-override={}", node.name).into(),
        format!("--node-ip={}", node.address).into(),
        format!("--address={}", node.address).into(),
        "--port=0".into(),
        "--healthz-port=0".into(),
        "--ends-with-stdin=true".into(),
        // A service manager sends SIGTERM to all processes, this one and the children.
        "--drain=true".into(),
    ];
    let program = match &config.shim {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("find this program")?,
    };
    Ok(Kubelet {
        name: node.name.clone(),
        program,
        words,
        log: node.log(),
        clean_mark: node.clean_mark(),
        disk: host.disk.clone(),
    })
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
