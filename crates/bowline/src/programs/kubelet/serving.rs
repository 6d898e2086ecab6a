//! What the kubelet answers: logs and exec for the API server, and whether it lives.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_host::Host;
use bowline_machinery::client::Client;
use bowline_machinery::serve::{Answer, Bound, Everyone, Kept, Pages, Reviewer, Tls};
use bowline_roles::kubelet::{Serving, attributes};

use super::Kubelet;
use crate::programs::process::{Process, certificate_user};

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
        if self.client_ca_file.is_none() && !tokens && !anonymous {
            tracing::warn!(
                "logs and exec are not served: neither --client-ca-file nor --authentication-token-webhook is set"
            );
            return Ok(None);
        }
        let tls = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                Tls::read(host, certificate, key).await.context("use --tls-cert-file")?
            }
            _ => Tls::self_signed(host, node_name, node_ip).await?,
        };
        let tls = match &self.client_ca_file {
            Some(path) => tls.trusting(path, certificate_user).await.context("use --client-ca-file")?,
            None => tls,
        };
        let (name, client) = (node_name.to_owned(), |used: bool| used.then(|| client.clone()));
        let reviewer = Reviewer::new(host, self.kept(), move |request| attributes(&name, request));
        let reviewer = reviewer.anonymous(anonymous).tokens(client(tokens)).rights(client(webhook));
        let address = SocketAddr::new(self.address, self.port).to_string();
        Ok(Some(Serving::reviewed(address, tls, Arc::new(reviewer))))
    }

    fn kept(&self) -> Kept {
        Kept {
            tokens: self.authentication_token_webhook_cache_ttl,
            allowed: self.authorization_webhook_cache_authorized_ttl,
            denied: self.authorization_webhook_cache_unauthorized_ttl,
        }
    }
}
