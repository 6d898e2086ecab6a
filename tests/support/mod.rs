//! A real `bowline up` in a scratch directory, driven from outside like any cluster.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

pub mod apiserver;
pub mod cluster;
pub mod collector;
pub mod containerd;
pub mod control_group;
pub mod control_plane;
pub mod deaf;
pub mod etcd;
pub mod gate;
pub mod ginkgo;
pub mod https;
pub mod machine;
pub mod namespaces;
pub mod node;
pub mod objects;
pub mod peers;
pub mod ports;
pub mod program;
pub mod store;
pub mod upstream;

pub use cluster::Cluster;

use std::time::Duration;

/// Longest wait for anything: generous for a loaded machine, never used up on a good run.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until a file is there, which nobody tells of.
pub async fn until_exists(path: &std::path::Path) {
    let there = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, there).await.unwrap_or_else(|_| panic!("{} never came", path.display()));
}
