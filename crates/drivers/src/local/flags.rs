//! `bowline driver local`: flags to settings.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::config::{ConfigError, LocalConfig, NamedNode, segment};
use super::dialect::Dialect;
use super::record::Segments;

const SCHEME: &str = "unix://";

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
        Some((id, endpoint)) => (id, Some(endpoint.parse::<Endpoint>()?.0)),
        None => (text, None),
    };
    Ok(NamedNode { endpoint, ..NamedNode::new(id.to_owned())? })
}

/// The path of a UNIX socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let path = PathBuf::from(text.strip_prefix(SCHEME).unwrap_or(text));
        match path.is_absolute() && path.file_name().is_some() {
            true => Ok(Self(path)),
            false => Err(ConfigError::Endpoint(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let table = [
            ("unix:///run/csi.sock", Some("/run/csi.sock")),
            ("/run/csi.sock", Some("/run/csi.sock")),
            ("unix://run/csi.sock", None),
            ("csi.sock", None),
            ("tcp://127.0.0.1:1", None),
            ("unix:///", None),
            ("", None),
        ];
        for (text, expected) in table {
            let path = text.parse::<Endpoint>().ok().map(|endpoint| endpoint.0);
            assert_eq!(path, expected.map(PathBuf::from), "{text}");
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
