//! `bowline rbac`: the least rights for what is enabled, as objects that `kubectl apply` takes.

mod objects;
#[cfg(test)]
mod tests;
mod yaml;

use std::process::ExitCode;

use anyhow::{Result, bail};
use bowline_roles::controllers::enabled;
use bowline_roles::rights;

use crate::programs::sidecar_rights;
use crate::terminal::Terminal;
pub use objects::{Grant, Holder, grant_objects};

/// Lease of kube-controller-manager and kube-scheduler: named after the program, in the program's namespace.
fn lease(program: &'static str) -> Vec<objects::Rule> {
    let group = "coordination.k8s.io";
    vec![
        objects::Rule::new(group, "leases", &["create"]),
        objects::Rule::new(group, "leases", &["get", "update"]).only(program),
    ]
}

/// To act as these accounts, which are made if they are missing.
fn tokens(accounts: &[&str]) -> Vec<objects::Rule> {
    let tokens = objects::Rule::new("", "serviceaccounts/token", &["create"]);
    let names = accounts.iter().map(|account| (*account).to_owned()).collect();
    vec![objects::Rule::new("", "serviceaccounts", &["create"]), objects::Rule { names, ..tokens }]
}

/// Print the least rights of programs, for kubectl apply
#[derive(clap::Args)]
pub struct Rbac {
    /// kube-controller-manager (the default), kube-scheduler, csi-provisioner, csi-attacher, csi-resizer, csi-snapshotter, snapshot-controller, csi-external-health-monitor-controller, sidecars
    #[arg(value_name = "PROGRAM", default_value = "kube-controller-manager")]
    programs: Vec<String>,
    /// Controllers that kube-controller-manager or sidecars runs, as in its own flag
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// Where the service accounts and the leases are
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    namespace: String,
    /// Grant to the user of a client certificate instead of to a service account
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// For kube-controller-manager --use-service-account-credentials: it fills its caches and issues tokens for the accounts
    /// of its controllers, whose own rights are upstream's system:controller roles
    #[arg(long)]
    use_service_account_credentials: bool,
    /// Let the sidecars read the secrets that classes and volumes name
    #[arg(long)]
    secrets: bool,
}

impl Rbac {
    pub fn run(self) -> Result<ExitCode> {
        let mut documents = Vec::new();
        for program in &self.programs {
            let holder = match &self.user {
                Some(user) => Holder::User(user.clone()),
                None => Holder::ServiceAccount,
            };
            let grant = self.grant(program)?;
            documents.extend(grant_objects(&grant, &self.namespace, &holder));
        }
        Terminal::default().line(yaml::print(&documents).trim_end());
        Ok(ExitCode::SUCCESS)
    }

    fn grant(&self, program: &str) -> Result<Grant> {
        Ok(match program {
            "kube-controller-manager" => {
                let controllers = enabled(&self.controllers).map_err(anyhow::Error::msg)?;
                let rights = controllers.iter().flat_map(|controller| rights::each(controller.rights));
                if self.use_service_account_credentials {
                    let accounts: Vec<&str> = controllers.iter().map(|one| one.account).collect();
                    let rights = rights.filter(|right| matches!(right.verb, "list" | "watch"));
                    return Ok(Grant {
                        accounts: tokens(&accounts),
                        ..kube("kube-controller-manager", rights)
                    });
                }
                kube("kube-controller-manager", rights)
            }
            "kube-scheduler" => kube("kube-scheduler", rights::each(rights::SCHEDULER)),
            "csi-provisioner" => provisioner(self.secrets),
            "csi-attacher" => attacher(self.secrets),
            "csi-resizer" => resizer(self.secrets),
            "csi-snapshotter" => snapshotter(self.secrets),
            "snapshot-controller" => snapshot_controller(),
            "csi-external-health-monitor-controller" => health_monitor(),
            "sidecars" => sidecars(&self.controllers, self.secrets)?,
            "csi-node-driver-registrar" | "livenessprobe" => {
                bail!("{program} asks nothing of the API server and needs no rights")
            }
            "kubelet" => bail!(
                "a kubelet has the rights of its node: give it a certificate for the user system:node:NAME in the group system:nodes"
            ),
            other => bail!(
                "`{other}` is none of kube-controller-manager, kube-scheduler, csi-provisioner, csi-attacher, csi-resizer, csi-snapshotter, snapshot-controller, csi-external-health-monitor-controller, sidecars"
            ),
        })
    }
}

/// What kube-controller-manager and kube-scheduler may beside their work: hold a lease, review their clients.
fn kube(program: &'static str, rights: impl Iterator<Item = rights::Right>) -> Grant {
    Grant::new(program, rights.chain(rights::each(rights::REVIEWS)), lease(program))
}

/// What csi-provisioner may; with the secrets that classes name.
pub fn provisioner(secrets: bool) -> Grant {
    let own = [rights::PROVISIONER_LEASES, rights::PROVISIONER_CAPACITY];
    sidecar("csi-provisioner", rights::PROVISIONER, &own, secrets)
}

/// What csi-attacher may; with the secrets that volumes name.
pub fn attacher(secrets: bool) -> Grant {
    sidecar("csi-attacher", rights::ATTACHER, &[rights::ATTACHER_LEASES], secrets)
}

/// What csi-snapshotter may; with the secrets that classes name.
pub fn snapshotter(secrets: bool) -> Grant {
    sidecar("csi-snapshotter", rights::SNAPSHOTTER, &[rights::SNAPSHOT_LEASES], secrets)
}

/// What snapshot-controller may, without `--enable-distributed-snapshotting`.
pub fn snapshot_controller() -> Grant {
    sidecar("snapshot-controller", rights::SNAPSHOT_CONTROLLER, &[rights::SNAPSHOT_LEASES], false)
}

/// What csi-resizer may; with the secrets that volumes name.
pub fn resizer(secrets: bool) -> Grant {
    sidecar("csi-resizer", rights::RESIZER, &[rights::RESIZER_LEASES], secrets)
}

/// What `bowline sidecars` may with these controllers: the rights of all of them, for one account.
fn sidecars(controllers: &[String], secrets: bool) -> Result<Grant> {
    let (mut all, leases) = sidecar_rights(controllers).map_err(anyhow::Error::msg)?;
    if secrets {
        all.extend(rights::each(rights::SECRETS));
    }
    Ok(Grant::new("sidecars", all.into_iter(), objects::rules(leases.into_iter())))
}

/// What csi-external-health-monitor-controller may; it needs no secrets.
pub fn health_monitor() -> Grant {
    let leases = &[rights::HEALTH_MONITOR_LEASES];
    sidecar("csi-external-health-monitor-controller", rights::HEALTH_MONITOR, leases, false)
}

fn sidecar(
    program: &'static str,
    own: rights::Rights,
    in_namespace: &[rights::Rights],
    secrets: bool,
) -> Grant {
    let secrets = if secrets { rights::SECRETS } else { &[] };
    let all = rights::each(own).chain(rights::each(secrets));
    Grant::new(program, all, objects::rules(in_namespace.iter().flat_map(|rights| rights::each(rights))))
}
