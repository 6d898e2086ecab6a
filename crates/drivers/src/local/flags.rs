//! `bowline driver local`: flags to settings.

use std::path::PathBuf;

use super::config::{ConfigError, LocalConfig, NamedNode, OVER_PROVISIONING, capacity, segment};
use super::dialect::Dialect;
use super::record::Segments;
use crate::endpoint::Endpoint;

/// Serve local disk images as CSI volumes
#[derive(Debug, Clone, clap::Args)]
pub struct LocalFlags {
    /// Socket to serve on: `unix:///path/csi.sock`, or just the path
    #[arg(long, env = "CSI_ENDPOINT", value_name = "ENDPOINT")]
    pub endpoint: Endpoint,
    /// Directory that holds the volumes; created if missing
    #[arg(long, value_name = "DIR")]
    pub pool: PathBuf,
    /// Name of this node, as reported to callers
    #[arg(long, value_name = "NAME")]
    pub node_id: String,
    /// A further node of this machine, for tests of callers, served on its own socket; repeatable
    #[arg(long, value_name = "NAME[=ENDPOINT]")]
    pub known_node: Vec<String>,
    /// Where all nodes of this machine are, instead of each in a place of its own; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = segment)]
    pub topology: Vec<(String, String)>,
    /// Most volumes published to one node at a time; 0 sets no limit
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub max_volumes_per_node: u32,
    /// The part of the pool's filesystem that this driver may use, such as `100Gi`; all of it by default
    #[arg(long, value_name = "BYTES", value_parser = capacity)]
    pub capacity: Option<u64>,
    /// How many times the capacity may be promised to volumes and snapshots together; 1 never promises more than
    /// there is, 0 sets no bound. No single volume is larger than the capacity
    #[arg(long, value_name = "RATIO", default_value_t = OVER_PROVISIONING)]
    pub over_provisioning: u32,
    /// Serve Prometheus metrics at `/metrics` and a health check at `/healthz`; off unless given
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_address: Option<String>,
    /// Speak CSI 1.13: health RPCs instead of volume conditions
    #[arg(long = "csi-1-13")]
    pub csi_1_13: bool,
}

impl LocalFlags {
    pub fn config(&self) -> Result<LocalConfig, ConfigError> {
        let mut config = LocalConfig::new(self.pool.clone(), self.node_id.clone())?;
        config.max_volumes = self.max_volumes_per_node;
        config.capacity = self.capacity;
        config.over_provisioning = self.over_provisioning;
        config.metrics = self.metrics_address.clone();
        config.dialect = if self.csi_1_13 { Dialect::V1_13 } else { Dialect::V1_12 };
        config.others = self.known_node.iter().map(|text| known_node(text)).collect::<Result<_, _>>()?;
        if !self.topology.is_empty() {
            config.share_topology(&Segments::from_iter(self.topology.iter().cloned()));
        }
        Ok(config)
    }
}

fn known_node(text: &str) -> Result<NamedNode, ConfigError> {
    let (id, endpoint) = match text.split_once('=') {
        Some((id, endpoint)) => (id, Some(endpoint.parse::<Endpoint>()?.into())),
        None => (text, None),
    };
    Ok(NamedNode { endpoint, ..NamedNode::new(id.to_owned())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_pool() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            local: LocalFlags,
        }
        let read = |more: &[&str]| {
            let all = ["local", "--endpoint", "/csi.sock", "--pool", "/pool", "--node-id", "n1"];
            let command: Result<Command, _> = clap::Parser::try_parse_from(all.iter().chain(more));
            let config = command.ok()?.local.config().ok()?;
            Some((config.capacity, config.over_provisioning))
        };
        assert_eq!(read(&[]), Some((None, 10)));
        let both = ["--capacity", "100Gi", "--over-provisioning", "1"];
        assert_eq!(read(&both), Some((Some(100 << 30), 1)));
        for bad in [["--capacity", "much"], ["--over-provisioning", "-1"]] {
            assert_eq!(read(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn bad_settings_are_named() {
        let new = |pool: &str, node: &str| LocalConfig::new(pool.into(), node.into()).map(|_| ());
        assert_eq!(new("/pool", "n1"), Ok(()));
        assert_eq!(new("pool", "n1"), Err(ConfigError::Pool("pool".into())));
        assert_eq!(new("/pool", ""), Err(ConfigError::NodeId(0)));
        assert_eq!(new("/pool", &"n".repeat(64)), Err(ConfigError::NodeId(64)));
    }
}
