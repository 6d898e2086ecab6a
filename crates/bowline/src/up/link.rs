//! By what the API server and the kubelet of this process know each other.

use std::net::IpAddr;

use anyhow::{Context, Result};
use bowline_apiserver::certs::{Authority, Credentials};
use bowline_apiserver::proxy::{NodeProxy, kubelet_client, kubelet_server};
use bowline_host::Host;
use bowline_machinery::serve::Tls;
use bowline_roles::kubelet::Serving;
use jiff::Timestamp;

/// Any free port of this machine; the node's status says which it became.
const ADDRESS: &str = "127.0.0.1:0";
/// As upstream's installer names it.
const CLIENT: &str = "kube-apiserver-kubelet-client";

/// Both ends of the way from the API server to the kubelet.
pub struct Link {
    pub kubelet: Serving,
    pub proxy: NodeProxy,
    pub issuer: Issuer,
}

/// Makes what kubelets of other processes need.
pub struct Issuer(Authority);

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
            kubelet: Serving::to_certificates(ADDRESS.into(), Tls::fixed(host, serving)),
            proxy: NodeProxy::new(host.net.clone(), client, &["InternalIP"]),
            issuer: Issuer(authority),
        })
    }
}

impl Issuer {
    /// What a kubelet of another process knows the API server by, PEM.
    pub fn authority(&self) -> &str {
        self.0.certificate()
    }

    /// What the API server knows that kubelet by.
    pub fn server(&self, address: IpAddr, now: Timestamp) -> Result<Credentials> {
        Ok(self.0.issue_server(&[address], now)?)
    }
}
