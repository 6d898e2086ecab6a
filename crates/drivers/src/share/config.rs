//! `bowline driver share`: flags and settings.

use std::path::PathBuf;

use crate::endpoint::Endpoint;

/// Longest node id CSI allows, in bytes.
const NODE_ID_MAX: usize = 256;

/// Serve directories that many workloads share as CSI volumes; their sizes are not enforced
#[derive(Debug, Clone, clap::Args)]
pub struct ShareFlags {
    /// Socket to serve on: `unix:///path/csi.sock`, or just the path
    #[arg(long, env = "CSI_ENDPOINT", value_name = "ENDPOINT")]
    pub endpoint: Endpoint,
    /// Directory that holds the volumes, the same on every node; created if missing
    #[arg(long, value_name = "DIR")]
    pub pool: PathBuf,
    /// Name of this node, as reported to callers
    #[arg(long, value_name = "NAME")]
    pub node_id: String,
}

impl ShareFlags {
    pub fn config(&self) -> Result<ShareConfig, ConfigError> {
        ShareConfig::new(self.pool.clone(), self.node_id.clone())
    }
}

/// Settings of one driver instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareConfig {
    /// Directory that holds the volumes.
    pub pool: PathBuf,
    pub node_id: String,
    /// The installation of Bowline that the pool must belong to; none takes any.
    pub installation: Option<String>,
    /// Other nodes of this machine that the driver answers as.
    pub further: Vec<Further>,
}

/// A node besides the driver's own: the same pool under another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Further {
    pub node_id: String,
    pub endpoint: PathBuf,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("node id must have 1 to {NODE_ID_MAX} bytes, got {0}")]
    NodeId(usize),
    #[error("pool `{0}` is not an absolute path")]
    Pool(PathBuf),
}

impl ShareConfig {
    pub fn new(pool: PathBuf, node_id: String) -> Result<Self, ConfigError> {
        if !(1..=NODE_ID_MAX).contains(&node_id.len()) {
            return Err(ConfigError::NodeId(node_id.len()));
        }
        match pool.is_absolute() {
            true => Ok(Self { pool, node_id, installation: None, further: Vec::new() }),
            false => Err(ConfigError::Pool(pool)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_settings_are_named() {
        let new = |pool: &str, node: &str| ShareConfig::new(pool.into(), node.into()).map(drop);
        assert_eq!(new("/pool", "n1"), Ok(()));
        assert_eq!(new("pool", "n1"), Err(ConfigError::Pool("pool".into())));
        assert_eq!(new("/pool", ""), Err(ConfigError::NodeId(0)));
        assert_eq!(new("/pool", &"n".repeat(257)), Err(ConfigError::NodeId(257)));
    }
}
