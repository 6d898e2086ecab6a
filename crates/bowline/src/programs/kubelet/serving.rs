//! What the kubelet answers: logs and exec for the API server, and whether it lives.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use bowline_apiserver::certs::{Authority, Credentials};
use bowline_apiserver::proxy::kubelet_server;
use bowline_host::Host;
use bowline_machinery::serve::{Answer, Bound, Everyone, Pages};
use bowline_roles::kubelet::Serving;

use super::Kubelet;
use crate::programs::process::Process;

impl Kubelet {
    /// `/healthz` on a port of its own, as upstream.
    pub(super) async fn serve_health(&self, process: &Process) -> Result<()> {
        if self.healthz_port == 0 {
            return Ok(());
        }
        let address = SocketAddr::new(self.healthz_bind_address, self.healthz_port).to_string();
        let bound = Bound::bind(&process.host, "--healthz-port", &address, None).await;
        let pages = Pages::new(Everyone).page("/healthz", || std::future::ready(Answer::ok("ok")));
        tokio::spawn(bound.context("serve health")?.serve(pages, process.stop.clone()));
        Ok(())
    }

    /// Only clients with a certificate of the client CA are served, and nothing without one.
    pub(super) async fn serving(&self, host: &Host, node_ip: IpAddr) -> Result<Option<Serving>> {
        let Some(authority) = &self.client_ca_file else {
            tracing::warn!("logs and exec are not served: --client-ca-file is not set");
            return Ok(None);
        };
        let authority = read(host, authority).await?;
        let server = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                Credentials { certificate: read(host, certificate).await?, key: read(host, key).await? }
            }
            _ => {
                let now = host.clock.now();
                let own = Authority::ephemeral(now).context("make a certificate")?;
                own.issue_server(&[node_ip], now).context("make a certificate")?
            }
        };
        let tls = kubelet_server(&authority, &server).context("use --client-ca-file and --tls-cert-file")?;
        Ok(Some(Serving { address: SocketAddr::new(self.address, self.port).to_string(), tls }))
    }
}

async fn read(host: &Host, path: &Path) -> Result<String> {
    let bytes = host.disk.read(path).await.with_context(|| format!("read `{}`", path.display()))?;
    String::from_utf8(bytes).with_context(|| format!("read `{}`", path.display()))
}
