//! How the API server reaches kubelets, with upstream's flags.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bowline_apiserver::certs::Credentials;
use bowline_apiserver::proxy::{ADDRESS_TYPES, NodeProxy, kubelet_client};
use bowline_host::Host;

#[derive(clap::Args)]
pub struct Kubelets {
    /// Certificate that kubelets know this server by
    #[arg(long, value_name = "FILE")]
    kubelet_client_certificate: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE")]
    kubelet_client_key: Option<PathBuf>,
    /// Authority of the kubelets' own certificates; without it any kubelet is believed
    #[arg(long, value_name = "FILE")]
    kubelet_certificate_authority: Option<PathBuf>,
    /// Types of node addresses to reach kubelets at, best first
    #[arg(long, value_name = "TYPES", value_delimiter = ',', default_values = ADDRESS_TYPES)]
    kubelet_preferred_address_types: Vec<String>,
}

impl Kubelets {
    pub fn proxy(&self, host: &Host) -> Result<NodeProxy> {
        let client = match (&self.kubelet_client_certificate, &self.kubelet_client_key) {
            (Some(certificate), Some(key)) => {
                Some(Credentials { certificate: read(certificate)?, key: read(key)? })
            }
            (None, None) => None,
            _ => bail!("--kubelet-client-certificate and --kubelet-client-key need each other: give both"),
        };
        let authority = self.kubelet_certificate_authority.as_deref().map(read).transpose()?;
        let client = kubelet_client(authority.as_deref(), client.as_ref())?;
        let types: Vec<&str> = self.kubelet_preferred_address_types.iter().map(String::as_str).collect();
        Ok(NodeProxy::new(host.net.clone(), client, &types))
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read `{}`", path.display()))
}
