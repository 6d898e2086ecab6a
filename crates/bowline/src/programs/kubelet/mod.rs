//! `kubelet`: runs the pods of one node and mounts their volumes.
//!
//! Differs from upstream: containers are run by this process and its shims, not by a runtime behind CRI; requests without
//! credentials are refused unless `--anonymous-auth=true` is given; logs of containers stand below `--root-dir` unless the
//! configuration says `podLogsDir`.

mod address;
mod config;
mod labels;
mod serving;
mod stdin;

use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bowline_host::Host;
use bowline_host::real::{self, RealConfig};
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{Gates, LoggingArgs, Program, Syntax, duration, files};
use bowline_roles::crew::Crew;
use bowline_roles::kubelet::{KubeletConfig, Owned, Owner, OwnerFlags, run_kubelet};
use clap::{ArgAction, Args};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::process::{Process, tell_unreached};
use super::{DRAIN_WORD, Group, KUBERNETES, Run};

/// What marks a directory that `bowline kubelet` uses: `bowline up` has an id of its own for each installation.
const OWNER: &str = "bowline-kubelet";
/// Records of containers, below the root directory.
const STATE: &str = "bowline-state";
/// How long `--drain` may take.
const DRAIN: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub struct Kubelet {
    /// KubeletConfiguration file; flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Kubeconfig file with the credentials of this node
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Name of the node; the host name by default
    #[arg(long, value_name = "NAME", default_value = "")]
    hostname_override: String,
    /// Where staging and publish paths stand
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    root_dir: PathBuf,
    /// Logs of containers; `pod-logs` below the root directory by default
    #[arg(long, value_name = "DIR")]
    pod_logs_dir: Option<PathBuf>,
    /// Address of the node; by default that of the host name or of the way to the API server
    #[arg(long, value_name = "IP", default_value = "")]
    node_ip: String,
    /// Labels of the node, as key=value
    #[arg(long, value_name = "LABELS", action = ArgAction::Append)]
    node_labels: Vec<String>,
    /// Create the Node object
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    register_node: bool,
    /// Taints of the Node when it is created, as key=value:effect
    #[arg(long, value_name = "TAINTS", value_delimiter = ',')]
    register_with_taints: Vec<String>,
    /// Address of the server for logs and exec
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    address: IpAddr,
    /// Port of the server for logs and exec
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    port: u16,
    /// Authority of certificates of the clients of that server
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Take requests without credentials for those of system:anonymous; refused by default, unlike upstream's flag
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    anonymous_auth: bool,
    /// Ask the API server whose a client's token is
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    authentication_token_webhook: bool,
    /// How long the review of a token is kept
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    authentication_token_webhook_cache_ttl: Duration,
    /// Whether the API server is asked what a client may do
    #[arg(long, value_name = "MODE", default_value = "AlwaysAllow", value_parser = ["AlwaysAllow", "Webhook"])]
    authorization_mode: String,
    /// How long a right is kept
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// How long a missing right is kept
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
    /// Certificate of that server; without it a self-signed one is made at each start
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// Port of /healthz; 0 serves none
    #[arg(long, value_name = "PORT", default_value_t = 10248)]
    healthz_port: u16,
    /// Address of /healthz
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    healthz_bind_address: IpAddr,
    /// Pods that the node takes
    #[arg(long, value_name = "COUNT", default_value_t = 110)]
    max_pods: u32,
    /// Feature gates, as Name=true
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    feature_gates: Vec<String>,
    /// On SIGTERM, end all containers and unmount their volumes first; they are left running otherwise
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    drain: bool,
    /// A directory besides --root-dir that containers must not see
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    hide_path: Vec<PathBuf>,
    /// End all containers, unmount their volumes, report the node as not ready and end
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    drain_at_once: bool,
    /// End when standard input does, and end all containers first after the word `drain`
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    ends_with_stdin: bool,
    #[command(flatten)]
    logging: LoggingArgs,
}

impl Run for Kubelet {
    const PROGRAM: Program = Program {
        name: "kubelet",
        about: "Runs the pods of one node and mounts their volumes",
        syntax: Syntax::Cobra,
        upstream: &[files::LOGGING, files::KUBELET],
        defaults: &[],
        version: Some(KUBERNETES),
    };
    const GROUP: Group = Group::ClusterComponents;
    const ADDITIONS: &'static [&'static str] =
        &["drain", "drain-at-once", "ends-with-stdin", "hide-path", "pod-logs-dir"];

    fn expand(words: &[String]) -> Result<Vec<String>, String> {
        config::expand(words)
    }
    fn logging(&self) -> &LoggingArgs {
        &self.logging
    }
    fn validate(&self) -> Result<(), String> {
        if self.kubeconfig.is_none() {
            return Err("--kubeconfig is required: a kubelet without an API server has no pods here".into());
        }
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (None, None) | (Some(_), Some(_)) => {}
            _ => return Err("--tls-cert-file and --tls-private-key-file belong together".into()),
        }
        address::given(&self.node_ip)?;
        labels::labels(&self.node_labels)?;
        labels::taints(&self.register_with_taints)?;
        self.gates().map(drop)
    }
    async fn run(self) -> Result<ExitCode> {
        let mut process = Process::begin()?;
        if !real::is_root() {
            bail!("mount volumes and run containers: this needs root; start it as root");
        }
        let node_name = self.node_name()?;
        let root = std::path::absolute(&self.root_dir).context("resolve --root-dir")?;
        let owner = Owner { id: OWNER, node_name: &node_name, older: None, flags: OwnerFlags::KUBELET };
        let owned = Owned::take(&process.host, &root, owner).await?;
        // The kernel names mounts by their real path.
        let root = process.host.disk.canonical(&root).await.context("resolve --root-dir")?;
        process.host = real::host(RealConfig::new(root.join(STATE))).context("open this machine")?;

        let program = Self::PROGRAM.name;
        let ports = process.connect(program, self.kubeconfig.as_deref(), &Environment::Ignored).await?;
        let server = address::of_api_server(self.kubeconfig.as_deref());
        let node_ip = address::choose(&process.host, &self.node_ip, &node_name, server.as_deref()).await?;
        self.serve_health(&process).await?;
        tokio::spawn(tell_unreached(ports.client.clone()));
        let mut config = KubeletConfig::new(&node_name, root);
        config.node_ip = node_ip;
        config.node_labels = labels::labels(&self.node_labels).map_err(anyhow::Error::msg)?;
        config.node_taints = labels::taints(&self.register_with_taints).map_err(anyhow::Error::msg)?;
        config.register = self.register_node;
        config.pods_max = self.max_pods;
        config.volume_health = self.gates().map_err(anyhow::Error::msg)?.enabled("CSIVolumeHealth");
        // As upstream: what may be privileged is for the API server to decide.
        config.allow_privileged = true;
        config.reports_stop = self.drain || self.drain_at_once || self.ends_with_stdin;
        config.data_dir_hidden = self.hidden(&process.host).await;
        config.serving = self.serving(&process.host, node_ip, &node_name, &ports.client).await?;
        if let Some(dir) = &self.pod_logs_dir {
            config.pod_logs_dir.clone_from(dir);
        }
        let crew = Crew::default();
        let told = if self.ends_with_stdin { Some(stdin::until_end()?) } else { None };
        let stop = process.stop.clone();
        let mut asked = pin!(async {
            if self.drain_at_once {
                End::now(true)
            } else {
                end_asked(stop, stdin::said(told), self.drain).await
            }
        });
        let switch = config.switch.clone();
        if self.drain_at_once {
            // It never says that it takes pods.
            switch.turn_off();
        }
        let mut starting = pin!(run_kubelet(ports.until(process.over()), config, &crew));
        let early = tokio::select! {
            biased;
            end = &mut asked => Err(end),
            started = &mut starting => Ok(started?),
        };
        let (kubelet, end, failure) = match early {
            // Containers of an earlier process may run: only a kubelet that has started knows them.
            Err(End { drain: true, until }) => {
                switch.turn_off();
                let Ok(started) = tokio::time::timeout_at(until, starting).await else {
                    bail!(
                        "did not start within {DRAIN:?}, so that containers and volumes of this node are left"
                    );
                };
                (started?, End { drain: true, until }, None)
            }
            // The API server may have died with the parent: then the start would never end.
            Err(End { drain: false, .. }) => return process.end(Ok(())).await,
            Ok(kubelet) => tokio::select! {
                biased;
                end = asked => (kubelet, end, None),
                // The process that is started next takes the containers over.
                failure = crew.failed() => (kubelet, End::now(false), Some(failure)),
            },
        };
        if !end.drain {
            switch.leave();
        }
        let clean = !end.drain || kubelet.drain(end.until.duration_since(Instant::now())).await;
        process.over().cancel();
        let ended = crew.finished().await;
        drop(owned);
        if let Some(failure) = failure.or(ended.err()) {
            return Err(anyhow!("{}", crate::up::chain(failure.as_ref())));
        }
        if !clean {
            bail!(
                "some containers or volumes were still in use after {DRAIN:?}; the next start takes them over"
            );
        }
        if end.drain && !kubelet.reported() {
            bail!(
                "the API server did not take the last report of node `{node_name}`; the next start repeats it"
            );
        }
        process.end(Ok(())).await
    }
}

/// How this process is to end.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Containers end and volumes are unmounted first, until then.
    drain: bool,
    until: Instant,
}

impl End {
    fn now(drain: bool) -> Self {
        Self { drain, until: Instant::now() + DRAIN }
    }
}

/// Waits for SIGTERM, or for the end of standard input.
async fn end_asked(stop: CancellationToken, said: impl Future<Output = String>, drain: bool) -> End {
    tokio::select! {
        biased;
        () = stop.cancelled() => End::now(drain),
        // A parent that dies without a word leaves the containers to the next start.
        said = said => End::now(said.trim() == DRAIN_WORD),
    }
}

impl Kubelet {
    fn gates(&self) -> Result<Gates, String> {
        Gates::parse(&Gates::known(&[files::KUBE_GATES])?, &self.feature_gates)
    }

    fn node_name(&self) -> Result<String> {
        let name = match self.hostname_override.trim() {
            "" => real::hostname().context("find this machine's name; set --hostname-override")?,
            name => name.to_owned(),
        };
        let name = name.to_lowercase();
        if let Some(wrong) = bowline_api::name::subdomain_errors(&name).first() {
            bail!("`{name}` cannot name a node: {wrong}. Set another with --hostname-override");
        }
        Ok(name)
    }

    /// Files with keys: containers see the machine's files, and must not see these.
    async fn hidden(&self, host: &Host) -> Vec<PathBuf> {
        let files = [&self.kubeconfig, &self.tls_private_key_file];
        let mut hidden = Vec::new();
        for file in files.into_iter().flatten().chain(&self.hide_path) {
            hidden.extend(host.disk.canonical(file).await);
        }
        hidden
    }
}
