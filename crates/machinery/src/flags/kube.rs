//! Flags that the kube-* programs share.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::gates::{Gate, Gates};
use super::logging::LoggingArgs;
use super::sidecar::LeaderElection;
use super::values::duration;
use crate::serve::Kept;

/// Flags of kube-controller-manager and kube-scheduler. A program sets its own `--secure-port` and
/// `--leader-elect-resource-name`.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct KubeArgs {
    /// Kubeconfig file; without one the pod's service account is used
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the kubeconfig's
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// Feature gates, as Name=true
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub feature_gates: Vec<String>,
    #[command(flatten)]
    pub election: LeaderElectArgs,
    #[command(flatten)]
    pub serving: ServingArgs,
    #[command(flatten)]
    pub logging: LoggingArgs,
}

impl KubeArgs {
    /// What no single flag can say about itself.
    pub fn validate(&self) -> Result<(), String> {
        if self.master.as_ref().is_some_and(|url| !url.is_empty()) {
            return Err("--master is not supported: give a kubeconfig".to_owned());
        }
        self.serving.validate()?;
        self.election.leader_election().map(drop)
    }

    pub fn gates(&self, known: &[Gate]) -> Result<Gates, String> {
        Gates::parse(known, &self.feature_gates)
    }
}

/// Leader election as kube-* programs spell it.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct LeaderElectArgs {
    /// Work only while holding the Lease
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    pub leader_elect: bool,
    /// How long a leader that does not renew keeps the Lease
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15s")]
    pub leader_elect_lease_duration: Duration,
    /// How long a leader tries to renew before it gives up
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub leader_elect_renew_deadline: Duration,
    /// Time between two attempts to take or renew the Lease
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub leader_elect_retry_period: Duration,
    /// Name of the Lease
    #[arg(long, value_name = "NAME", default_value = "")]
    pub leader_elect_resource_name: String,
    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
}

impl LeaderElectArgs {
    /// None with `--leader-elect=false`.
    pub fn leader_election(&self) -> Result<Option<LeaderElection>, String> {
        if !self.leader_elect {
            return Ok(None);
        }
        if self.leader_elect_resource_name.is_empty() || self.leader_elect_resource_namespace.is_empty() {
            return Err(
                "--leader-elect-resource-name and --leader-elect-resource-namespace must not be empty".into(),
            );
        }
        let timings = [
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        ];
        let namespace = Some(self.leader_elect_resource_namespace.clone());
        LeaderElection::new(namespace, timings, BTreeMap::new()).map(Some)
    }
}

/// The port for health and metrics.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ServingArgs {
    /// Address to serve on
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port for HTTPS; 0 serves nothing
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub secure_port: u16,
    /// Certificate; without one a self-signed certificate is made at each start
    #[arg(long, value_name = "PATH")]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "PATH")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Authority of certificates of clients; read again when it is replaced
    #[arg(long, value_name = "PATH")]
    pub client_ca_file: Option<PathBuf>,
    /// Kubeconfig for reviewing tokens of clients; without one, clients without a certificate are anonymous
    #[arg(long, value_name = "PATH")]
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Kubeconfig for reviewing access; without one only the paths that are always allowed are served
    #[arg(long, value_name = "PATH")]
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Paths that need no authorization
    #[arg(long, value_name = "PATHS", value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub authorization_always_allow_paths: Vec<String>,
    /// How long the review of a token is kept
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// How long a right is kept
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// How long a missing right is kept
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
}

impl ServingArgs {
    fn validate(&self) -> Result<(), String> {
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(_), None) => Err("--tls-cert-file needs --tls-private-key-file".to_owned()),
            (None, Some(_)) => Err("--tls-private-key-file needs --tls-cert-file".to_owned()),
            _ => Ok(()),
        }
    }

    /// How long reviews are kept.
    pub fn kept(&self) -> Kept {
        Kept {
            tokens: self.authentication_token_webhook_cache_ttl,
            allowed: self.authorization_webhook_cache_authorized_ttl,
            denied: self.authorization_webhook_cache_unauthorized_ttl,
        }
    }

    /// Where to listen; none with `--secure-port=0`.
    pub fn address(&self) -> Option<SocketAddr> {
        (self.secure_port != 0).then(|| SocketAddr::new(self.bind_address, self.secure_port))
    }
}
