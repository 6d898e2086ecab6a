//! By what the API server and the kubelet of this process know each other.

use anyhow::{Context, Result};
use bowline_apiserver::certs::Authority;
use bowline_apiserver::proxy::{NodeProxy, kubelet_client, kubelet_server};
use bowline_host::Host;
use bowline_roles::kubelet::Serving;

/// Any free port of this machine; the node's status says which it became.
const ADDRESS: &str = "127.0.0.1:0";
/// As upstream's installer names it.
const CLIENT: &str = "kube-apiserver-kubelet-client";

/// Both ends of the way from the API server to the kubelet.
pub struct Link {
    pub kubelet: Serving,
    pub proxy: NodeProxy,
}

impl Link {
    /// The authority behind both ends is made anew at each start and kept nowhere, so nobody else can ever show a
    /// certificate of it.
    pub fn make(host: &Host) -> Result<Self> {
        let now = host.clock.now();
        let authority = Authority::ephemeral(now).context("make the kubelet's authority")?;
        let serving = kubelet_server(authority.certificate(), &authority.issue_server(&[], now)?)?;
        let client = authority.issue_client(CLIENT, "system:masters", now)?;
        let client = kubelet_client(Some(authority.certificate()), Some(&client))?;
        Ok(Self {
            kubelet: Serving { address: ADDRESS.into(), tls: serving },
            proxy: NodeProxy::new(host.net.clone(), client, &["InternalIP"]),
        })
    }
}
