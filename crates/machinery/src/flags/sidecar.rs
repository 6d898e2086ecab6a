//! Flags that the CSI sidecars share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::gates::Gates;
use super::logging::LoggingArgs;
use super::values::{duration, label, socket};
use crate::queue::Backoff;

/// Flags of every sidecar that talks to a driver and to the API server.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct SidecarArgs {
    /// Socket of the CSI driver
    #[arg(long, value_name = "PATH", value_parser = socket, default_value = "/run/csi/socket")]
    pub csi_address: PathBuf,
    /// Kubeconfig file; without one the pod's service account is used
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Longest time for one CSI call
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15s")]
    pub timeout: Duration,
    /// First delay after a failure; doubled with each further one
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    pub retry_interval_start: Duration,
    /// Longest delay between two attempts
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub retry_interval_max: Duration,
    /// Feature gates, as Name=true
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub feature_gates: Vec<String>,
    #[command(flatten)]
    pub election: ElectionArgs,
    #[command(flatten)]
    pub endpoint: EndpointArgs,
    #[command(flatten)]
    pub logging: LoggingArgs,
}

impl SidecarArgs {
    /// What no single flag can say about itself. `gates` are those that the program knows.
    pub fn validate(&self, gates: &[&str]) -> Result<(), String> {
        self.endpoint.address()?;
        Gates::parse(&Gates::known(gates)?, &self.feature_gates)?;
        self.election.leader_election().map(drop)
    }

    pub fn backoff(&self) -> Backoff {
        Backoff { start: self.retry_interval_start, max: self.retry_interval_max }
    }
}

/// Leader election as sidecars spell it.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ElectionArgs {
    /// Work only while holding the Lease
    #[arg(long)]
    pub leader_election: bool,
    /// Namespace of the Lease; without one that of the pod
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// How long a leader that does not renew keeps the Lease
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15s")]
    pub leader_election_lease_duration: Duration,
    /// How long a leader tries to renew before it gives up
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub leader_election_renew_deadline: Duration,
    /// Time between two attempts to take or renew the Lease
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    pub leader_election_retry_period: Duration,
    /// Labels of the Lease while leading, as key:value
    #[arg(long, value_name = "LABELS", value_parser = label, value_delimiter = ',')]
    pub leader_election_labels: Vec<(String, String)>,
}

/// Timings of leader election that fit each other, whichever flags they came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    pub namespace: Option<String>,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
    pub labels: BTreeMap<String, String>,
}

impl LeaderElection {
    /// Upstream lengthens the retry period by up to a fifth, so that candidates do not move in step.
    fn checked(self) -> Result<Self, String> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = self;
        if retry_period.is_zero() {
            return Err("the retry period of leader election must be greater than zero".to_owned());
        }
        if lease_duration <= renew_deadline {
            return Err(format!(
                "the lease duration ({lease_duration:?}) must be greater than the renew deadline ({renew_deadline:?})"
            ));
        }
        if renew_deadline <= retry_period.mul_f64(1.2) {
            return Err(format!(
                "the renew deadline ({renew_deadline:?}) must be greater than 1.2 times the retry period ({retry_period:?})"
            ));
        }
        Ok(self)
    }

    pub(super) fn new(
        namespace: Option<String>,
        [lease_duration, renew_deadline, retry_period]: [Duration; 3],
        labels: BTreeMap<String, String>,
    ) -> Result<Self, String> {
        Self { namespace, lease_duration, renew_deadline, retry_period, labels }.checked()
    }
}

impl ElectionArgs {
    /// None without `--leader-election`; its timings are then not looked at, as upstream does.
    pub fn leader_election(&self) -> Result<Option<LeaderElection>, String> {
        if !self.leader_election {
            return Ok(None);
        }
        let timings = [
            self.leader_election_lease_duration,
            self.leader_election_renew_deadline,
            self.leader_election_retry_period,
        ];
        let labels = self.leader_election_labels.iter().cloned().collect();
        LeaderElection::new(self.leader_election_namespace.clone(), timings, labels).map(Some)
    }
}

/// Where a sidecar keeps its Lease: what was asked for, the pod's namespace from its environment, from its service
/// account, or `default`.
pub fn lease_namespace<'a>(
    flag: Option<&'a str>,
    environment: Option<&'a str>,
    account: Option<&'a str>,
) -> &'a str {
    let given = [flag, environment, account].into_iter().flatten().map(str::trim);
    given.into_iter().find(|name| !name.is_empty()).unwrap_or("default")
}

/// Where metrics and health are served.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct EndpointArgs {
    /// HOST:PORT for metrics and health
    #[arg(long, value_name = "ADDRESS")]
    pub http_endpoint: Option<String>,
    /// HOST:PORT for metrics only; use --http-endpoint instead
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_address: Option<String>,
    /// Path of the metrics
    #[arg(long, value_name = "PATH", default_value = "/metrics")]
    pub metrics_path: String,
}

impl EndpointArgs {
    /// The address to listen on, if any.
    pub fn address(&self) -> Result<Option<&str>, String> {
        if !self.metrics_path.starts_with('/') {
            return Err(format!("--metrics-path must start with `/`, got `{}`", self.metrics_path));
        }
        match (&self.http_endpoint, &self.metrics_address) {
            (Some(_), Some(_)) => {
                Err("only one of --http-endpoint and --metrics-address can be set; use --http-endpoint"
                    .to_owned())
            }
            (endpoint, metrics) => Ok(endpoint.as_deref().or(metrics.as_deref())),
        }
    }

    /// Whether health is served as well: upstream does so only on `--http-endpoint`.
    pub fn serves_health(&self) -> bool {
        self.http_endpoint.is_some()
    }
}
