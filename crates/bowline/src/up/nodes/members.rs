//! Which nodes there are besides the first one: those that the settings ask for, and those that an earlier start with a larger
//! `--nodes` ran and did not leave clean.
//!
//! # Crash safety
//!
//! A node is clean if its directory says so. That is taken back before its kubelet starts and written after the kubelet has
//! ended its containers and unmounted their volumes. A process that dies in between leaves a node that the next start looks
//! after.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use anyhow::{Context, Result};
use bowline_host::Host;
use bowline_host::disk::Kind;

use crate::up::Config;

const DIRECTORY: &str = "nodes";
/// Stands in the directory of a node that has no containers and no volumes.
const CLEAN: &str = "clean";

/// A node besides the first one.
#[derive(Debug, Clone)]
pub struct FurtherNode {
    pub name: String,
    pub(super) dir: PathBuf,
    pub(super) address: IpAddr,
}

impl FurtherNode {
    fn new(config: &Config, name: String, number: u8) -> Self {
        let dir = config.data_dir.join(DIRECTORY).join(&name);
        Self { name, dir, address: Ipv4Addr::new(127, 0, 0, number).into() }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.join("kubelet")
    }

    /// Where a driver answers as this node.
    pub fn socket(&self, driver: &str) -> PathBuf {
        self.root().join("plugins").join(driver).join("csi.sock")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("kubelet.log")
    }

    pub(super) fn clean_mark(&self) -> PathBuf {
        self.dir.join(CLEAN)
    }
}

/// The nodes besides the first one.
#[derive(Debug, Default)]
pub struct Members {
    pub wanted: Vec<FurtherNode>,
    /// No longer asked for, and not left clean.
    pub dropped: Vec<FurtherNode>,
}

impl Members {
    /// Compares the settings with the directories of earlier starts.
    pub async fn find(config: &Config, host: &Host) -> Result<Self> {
        let named = |number| FurtherNode::new(config, format!("{}-{number}", config.node_name), number);
        let wanted: Vec<FurtherNode> = (2..=config.nodes).map(named).collect();
        let all = config.data_dir.join(DIRECTORY);
        let failed = || format!("look for nodes of an earlier start in `{}`", all.display());
        let mut dropped = Vec::new();
        for name in host.disk.list(&all).await.with_context(failed)? {
            let Some(number) = number(&name).filter(|_| !wanted.iter().any(|node| node.name == name)) else {
                continue;
            };
            let node = FurtherNode::new(config, name, number);
            let is_dir = host.disk.kind(&node.dir).await.with_context(failed)? == Some(Kind::Dir);
            let clean = host.disk.kind(&node.clean_mark()).await.with_context(failed)?.is_some();
            if is_dir && !clean {
                dropped.push(node);
            }
        }
        Ok(Self { wanted, dropped })
    }

    pub fn all(&self) -> impl Iterator<Item = &FurtherNode> {
        self.wanted.iter().chain(&self.dropped)
    }
}

/// The number at the end of a further node's name.
fn number(name: &str) -> Option<u8> {
    let (_, number) = name.rsplit_once('-')?;
    let number = number.parse().ok().filter(|number| (2..=9).contains(number))?;
    bowline_api::name::subdomain_errors(name).is_empty().then_some(number)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn nodes_that_were_not_left_clean_are_found() {
        let (host, _) = bowline_host::fake::host(1);
        let mut config = Config::scratch(Path::new("/scratch"));
        config.nodes = 2;
        let found = Members::find(&config, &host).await.expect("nothing is there yet");
        assert_eq!((found.wanted.len(), found.dropped.len()), (1, 0));
        let nodes = config.data_dir.join(DIRECTORY);
        // `another-4` is of a start with another --node-name and --kubelet-dir.
        for name in ["this-machine-2", "this-machine-3", "this-machine-5", "another-4", "notes", "x-12"] {
            host.disk.create_dir_all(&nodes.join(name), 0o700).await.expect("created");
        }
        host.disk.create_file(&nodes.join("this-machine-7")).await.expect("created");
        host.disk.create_file(&nodes.join("this-machine-5").join(CLEAN)).await.expect("created");
        let found = Members::find(&config, &host).await.expect("found");
        let names = |nodes: &[FurtherNode]| nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found.wanted), ["this-machine-2"]);
        assert_eq!(names(&found.dropped), ["another-4", "this-machine-3"]);
        assert_eq!(found.dropped[0].address, IpAddr::from([127, 0, 0, 4]));
    }
}
