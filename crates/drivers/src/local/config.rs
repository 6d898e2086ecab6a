//! Settings of one driver instance.

use std::path::PathBuf;

use super::TOPOLOGY_KEY;
use super::dialect::Dialect;
use super::record::Segments;
use crate::endpoint::BadEndpoint;
use crate::quantity;

/// A node id becomes a topology value, which CSI limits to this many characters.
const NODE_ID_MAX: usize = 63;

/// Few volumes are ever full, and an image takes no more than what was written to it.
pub const OVER_PROVISIONING: u32 = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalConfig {
    /// Directory that holds the volumes.
    pub pool: PathBuf,
    /// The node this instance speaks for on its endpoint.
    pub node: NamedNode,
    /// Further nodes of this machine, for tests of callers that need several.
    pub others: Vec<NamedNode>,
    /// Most volumes published to one node at a time; zero means no limit.
    pub max_volumes: u32,
    /// Bytes of the filesystem that count as the pool; none means all.
    pub capacity: Option<u64>,
    /// How many times the pool may be promised to volumes and snapshots in all; zero means no bound.
    pub over_provisioning: u32,
    /// `HOST:PORT` that serves metrics; none serves none.
    pub metrics: Option<String>,
    pub dialect: Dialect,
    /// The installation of Bowline that the pool must belong to; none takes any.
    pub installation: Option<String>,
}

/// A node as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNode {
    pub id: String,
    /// Where it is. Volumes are reachable from nodes that share their segments.
    pub topology: Segments,
    /// The socket on which it is served; none means that it is only known.
    pub endpoint: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("node id must have 1 to {NODE_ID_MAX} characters, got {0}")]
    NodeId(usize),
    #[error("pool `{0}` is not an absolute path")]
    Pool(PathBuf),
    #[error(transparent)]
    Endpoint(#[from] BadEndpoint),
    #[error("topology `{0}` is not `key=value` with at most {NODE_ID_MAX} characters each")]
    Topology(String),
    #[error("capacity `{0}` is not a number of bytes such as `1073741824`, `100Gi` or `500M`")]
    Capacity(String),
}

impl NamedNode {
    pub fn new(id: String) -> Result<Self, ConfigError> {
        let length = id.chars().count();
        if !(1..=NODE_ID_MAX).contains(&length) {
            return Err(ConfigError::NodeId(length));
        }
        let topology = Segments::from([(TOPOLOGY_KEY.to_owned(), id.clone())]);
        Ok(Self { id, topology, endpoint: None })
    }
}

impl LocalConfig {
    pub fn new(pool: PathBuf, node_id: String) -> Result<Self, ConfigError> {
        let node = NamedNode::new(node_id)?;
        if !pool.is_absolute() {
            return Err(ConfigError::Pool(pool));
        }
        Ok(Self {
            pool,
            node,
            others: Vec::new(),
            max_volumes: 0,
            capacity: None,
            over_provisioning: OVER_PROVISIONING,
            metrics: None,
            dialect: Dialect::default(),
            installation: None,
        })
    }

    /// Every node of this machine, the instance's own first.
    pub fn nodes(&self) -> impl Iterator<Item = &NamedNode> {
        std::iter::once(&self.node).chain(&self.others)
    }

    pub fn find(&self, id: &str) -> Option<&NamedNode> {
        self.nodes().find(|node| node.id == id)
    }

    /// Puts all nodes into one place instead of each into its own.
    pub fn share_topology(&mut self, segments: &Segments) {
        for node in std::iter::once(&mut self.node).chain(&mut self.others) {
            node.topology = segments.clone();
        }
    }
}

/// Reads `--capacity`.
pub fn capacity(text: &str) -> Result<u64, ConfigError> {
    quantity::parse(text).ok_or_else(|| ConfigError::Capacity(text.to_owned()))
}

/// Reads one `--topology key=value`.
pub fn segment(text: &str) -> Result<(String, String), ConfigError> {
    let bad = || ConfigError::Topology(text.to_owned());
    let (key, value) = text.split_once('=').ok_or_else(bad)?;
    let name = key.rsplit('/').next().unwrap_or(key);
    let fits = |part: &str| (1..=NODE_ID_MAX).contains(&part.len());
    if fits(name) && fits(value) && key.len() <= 2 * NODE_ID_MAX + 1 {
        Ok((key.to_owned(), value.to_owned()))
    } else {
        Err(bad())
    }
}
