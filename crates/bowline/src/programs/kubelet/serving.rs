//! What the kubelet answers: logs and exec for the API server, and whether it lives.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_apiserver::auth::holder;
use bowline_apiserver::certs::{Authority, Credentials};
use bowline_apiserver::proxy::{kubelet_server, reviewing_kubelet_server};
use bowline_host::Host;
use bowline_machinery::client::Client;
use bowline_machinery::serve::{Answer, Bound, Everyone, Kept, Pages, Reviewer, User};
use bowline_roles::kubelet::{Serving, attributes};

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

    /// Nothing is served where no client could show who it is.
    pub(super) async fn serving(
        &self,
        host: &Host,
        node_ip: IpAddr,
        node_name: &str,
        client: &Client,
    ) -> Result<Option<Serving>> {
        let (tokens, anonymous) = (self.authentication_token_webhook, self.anonymous_auth);
        let webhook = self.authorization_mode == "Webhook";
        let authority = match &self.client_ca_file {
            Some(authority) => Some(read(host, authority).await?),
            None if tokens || anonymous => None,
            None => {
                tracing::warn!(
                    "logs and exec are not served: neither --client-ca-file nor --authentication-token-webhook is set"
                );
                return Ok(None);
            }
        };
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
        let address = SocketAddr::new(self.address, self.port).to_string();
        let unusable = "use --client-ca-file and --tls-cert-file";
        if let (Some(authority), false) = (&authority, tokens || anonymous || webhook) {
            let tls = kubelet_server(authority, &server).context(unusable)?;
            return Ok(Some(Serving::to_certificates(address, tls)));
        }
        let tls = reviewing_kubelet_server(authority.as_deref(), &server).context(unusable)?;
        let (name, client) = (node_name.to_owned(), |used: bool| used.then(|| client.clone()));
        let reviewer = Reviewer::new(host, self.kept(), move |request| attributes(&name, request));
        let reviewer = reviewer.anonymous(anonymous).tokens(client(tokens)).rights(client(webhook));
        Ok(Some(Serving::reviewed(address, tls, Arc::new(reviewer), user_of)))
    }

    fn kept(&self) -> Kept {
        Kept {
            tokens: self.authentication_token_webhook_cache_ttl,
            allowed: self.authorization_webhook_cache_authorized_ttl,
            denied: self.authorization_webhook_cache_unauthorized_ttl,
        }
    }
}

fn user_of(certificate: &[u8]) -> Option<User> {
    let user = Arc::unwrap_or_clone(holder(certificate)?.user);
    Some(User { name: user.name, uid: user.uid, groups: user.groups, extra: user.extra })
}

async fn read(host: &Host, path: &Path) -> Result<String> {
    let bytes = host.disk.read(path).await.with_context(|| format!("read `{}`", path.display()))?;
    String::from_utf8(bytes).with_context(|| format!("read `{}`", path.display()))
}
