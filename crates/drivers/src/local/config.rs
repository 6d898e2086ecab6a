//! Settings of one driver instance.

use std::path::PathBuf;

use super::TOPOLOGY_KEY;
use super::record::Segments;

/// A node id becomes a topology value, which CSI limits to this many characters.
const NODE_ID_MAX: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalConfig {
    /// Directory that holds the volumes.
    pub pool: PathBuf,
    pub node_id: String,
    /// Where this node is. Volumes are reachable from exactly here.
    pub topology: Segments,
    /// Further nodes that volumes may be published to; for tests of callers.
    pub known_nodes: Vec<String>,
    /// Most volumes published to one node at a time; zero means no limit.
    pub max_volumes: u32,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("node id must have 1 to {NODE_ID_MAX} characters, got {0}")]
    NodeId(usize),
    #[error("pool `{0}` is not an absolute path")]
    Pool(PathBuf),
    #[error("endpoint `{0}` is neither `unix:///absolute/path` nor an absolute path")]
    Endpoint(String),
}

impl LocalConfig {
    pub fn new(pool: PathBuf, node_id: String) -> Result<Self, ConfigError> {
        let length = node_id.chars().count();
        if !(1..=NODE_ID_MAX).contains(&length) {
            return Err(ConfigError::NodeId(length));
        }
        if !pool.is_absolute() {
            return Err(ConfigError::Pool(pool));
        }
        let topology = Segments::from([(TOPOLOGY_KEY.to_owned(), node_id.clone())]);
        Ok(Self { pool, node_id, topology, known_nodes: Vec::new(), max_volumes: 0 })
    }

    pub fn knows(&self, node: &str) -> bool {
        self.node_id == node || self.known_nodes.iter().any(|known| known == node)
    }
}
