//! From a container in a Pod to what the host starts. Pure.

mod environment;
mod mounts;
mod refused;
mod resources;
mod security;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_api::{Container, Meta, Pod};

#[cfg(test)]
pub use environment::{Environment, expand};
pub use environment::{Missing, Objects, references, skipped};
pub use refused::refused;
#[cfg(test)]
pub use {resources::resources, security::security};

use super::model::{Config, ContainerSpec, Observed, VolumeAt};

/// Longest host name.
const HOSTNAME_MAX: usize = 63;
/// Every pod shares the machine's network.
pub const POD_IP: &str = "127.0.0.1";

/// Why a container cannot be started, as its waiting state shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
}

fn config(message: String) -> Problem {
    Problem { reason: "CreateContainerConfigError", message }
}

pub fn init_containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().and_then(|s| s.init_containers.as_deref()).unwrap_or_default()
}

pub fn app_containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default()
}

/// Everything that the host needs to start this attempt of a container.
pub fn build(
    seen: &Observed,
    pod: &Pod,
    container: &Container,
    number: u32,
    volumes: &BTreeMap<String, VolumeAt>,
) -> Result<ContainerSpec, Missing> {
    let hostname: String = hostname(pod).chars().take(HOSTNAME_MAX).collect();
    let env = environment::environment(pod, container, &hostname, &seen.objects)?;
    Ok(ContainerSpec {
        id: seen.id(&container.name, number),
        argv: environment::arguments(container, &env)?,
        working_dir: container.working_dir.as_ref().filter(|d| !d.is_empty()).map(PathBuf::from),
        mounts: mounts::mounts(container, volumes, &env)?,
        devices: mounts::devices(container, volumes)?,
        hidden: seen.config.hidden.clone(),
        security: security::security(pod, container, seen.config.allow_privileged)?,
        resources: resources::resources(container)?,
        log: log(&seen.config, pod, &container.name, number),
        message_path: container
            .termination_message_path
            .as_ref()
            .filter(|path| !path.is_empty())
            .map(absolute),
        hostname,
        env: env.into_variables(),
    })
}

fn absolute(path: impl AsRef<Path>) -> PathBuf {
    Path::new("/").join(path)
}

/// A pod as upstream names it in messages.
pub fn pod_text(pod: &Pod) -> String {
    format!("{}_{}({})", pod.name(), pod.namespace(), pod.uid())
}

/// Where a run of a container writes to, as upstream has it.
pub fn log(config: &Config, pod: &Pod, container: &str, number: u32) -> PathBuf {
    let pod = format!("{}_{}_{}", pod.namespace(), pod.name(), pod.uid());
    config.log_dir.join(pod).join(container).join(format!("{number}.log"))
}

/// The UID of the pod whose logs are in a directory of this name.
pub fn pod_of_logs(directory: &str) -> Option<&str> {
    directory.rsplit_once('_').map(|(_, uid)| uid)
}

/// Which run wrote a file in the directory of a container's logs: `2.log`, or `2.log.1` when it was put aside.
pub fn run_of_log(file: &str) -> Option<u32> {
    let (number, rest) = file.split_once('.')?;
    number.parse().ok().filter(|_| rest == "log" || rest.starts_with("log."))
}

fn hostname(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    let given = spec.and_then(|spec| spec.hostname_override.as_deref().or(spec.hostname.as_deref()));
    given.filter(|name| !name.is_empty()).unwrap_or(pod.name())
}
