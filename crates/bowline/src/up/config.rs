//! Where things are kept.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::store::StoreArgs;

/// Settings of one installation, resolved.
#[derive(Debug, Clone)]
pub struct Config {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    pub kubelet_dir: PathBuf,
    pub node_name: String,
    /// The program with the hidden container subcommands; this one by default.
    pub shim: Option<PathBuf>,
    /// Where objects are kept and for how long.
    pub keeping: StoreArgs,
    /// Nodes, the one of this process included.
    pub nodes: u8,
    /// Whether containers may have what reaches beyond them.
    pub allow_privileged: bool,
}

impl Config {
    pub fn new(
        data_dir: PathBuf,
        listen: SocketAddr,
        kubelet_dir: PathBuf,
        node_name: Option<String>,
    ) -> Result<Self> {
        let node_name = match node_name {
            Some(name) => name,
            None => bowline_host::real::hostname()
                .context("find this machine's name; set --node-name")?
                .to_lowercase(),
        };
        let wrong = bowline_api::name::subdomain_errors(&node_name);
        if let Some(wrong) = wrong.first() {
            bail!("`{node_name}` cannot name a node: {wrong}. Set another with --node-name");
        }
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).with_context(|| format!("resolve `{}`", path.display()))
        };
        Ok(Self {
            data_dir: absolute(data_dir)?,
            listen,
            kubelet_dir: absolute(kubelet_dir)?,
            node_name,
            shim: None,
            keeping: StoreArgs::default(),
            nodes: 1,
            allow_privileged: false,
        })
    }

    /// Everything below one directory, on any free port: for the demo and benchmarks.
    pub fn scratch(dir: &Path) -> Self {
        Self {
            data_dir: dir.join("data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            kubelet_dir: dir.join("kubelet"),
            node_name: "this-machine".into(),
            shim: None,
            keeping: StoreArgs::default(),
            nodes: 1,
            allow_privileged: false,
        }
    }

    pub fn store(&self) -> PathBuf {
        self.data_dir.join("store")
    }
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir.join("kubeconfig")
    }
    /// The drivers' volumes: images in `volumes`, directories in `shares`.
    pub fn pool(&self) -> PathBuf {
        self.data_dir.join("pool")
    }
    /// A driver's socket, where upstream's drivers have theirs.
    pub fn driver_socket(&self, driver: &str) -> PathBuf {
        self.kubelet_dir.join("plugins").join(driver).join("csi.sock")
    }
}
