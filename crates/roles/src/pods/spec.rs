//! From a container in a Pod to what the host starts. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_api::build::HOST_IMAGE;
use bowline_api::{Container, Meta, Pod, downward, pod};
use bowline_host::containers::DEFAULT_PATH;
use k8s_openapi::api::core::v1::{EnvVar, ObjectFieldSelector, Volume};

use super::world::{Binding, Config, ContainerSpec, Observed, VolumeAt};
use crate::localvolumes;

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

/// What of a container cannot be done here; nobody can wait that away.
pub fn problem(pod: &Pod, container: &Container) -> Option<Problem> {
    let image = container.image.as_deref().unwrap_or_default();
    if image != HOST_IMAGE {
        let message = format!("image {image:?}: only the built-in image {HOST_IMAGE:?} can run here yet");
        return Some(Problem { reason: "ErrImagePull", message });
    }
    if container.restart_policy.is_some() {
        return Some(config("restartPolicy of a container is not supported here yet".into()));
    }
    if container.command.as_ref().is_none_or(Vec::is_empty)
        && container.args.as_ref().is_none_or(Vec::is_empty)
    {
        return Some(config("no command specified".into()));
    }
    if container.env_from.as_ref().is_some_and(|e| !e.is_empty()) {
        return Some(config("envFrom is not supported here yet".into()));
    }
    let mounted = container.volume_mounts.iter().flatten();
    if let Some(mount) = mounted.clone().find(|m| m.sub_path.is_some() || m.sub_path_expr.is_some()) {
        return Some(config(format!("subPath of volumeMount {:?} is not supported here yet", mount.name)));
    }
    let mut volumes = mounted.filter_map(|m| pod::volumes(pod).iter().find(|v| v.name == m.name));
    if let Some(message) = volumes.find_map(unsupported) {
        return Some(config(message));
    }
    environment(pod, container, "").err()
}

fn unsupported(volume: &Volume) -> Option<String> {
    let claimed = volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    localvolumes::problem(volume).or_else(|| {
        let message = format!("volume {:?}: its plugin is not supported here yet", volume.name);
        (!claimed && !localvolumes::makes(volume)).then_some(message)
    })
}

/// Everything that the host needs to start this attempt of a container.
pub fn build(
    seen: &Observed,
    pod: &Pod,
    container: &Container,
    number: u32,
    volumes: &BTreeMap<String, VolumeAt>,
) -> Result<ContainerSpec, Problem> {
    let hostname: String = hostname(pod).chars().take(HOSTNAME_MAX).collect();
    let env = environment(pod, container, &hostname)?;
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, &env)).collect()
    };
    let argv = [expanded(&container.command), expanded(&container.args)].concat();
    let (mounts, devices) = (mount_bindings(container, volumes)?, device_bindings(container, volumes)?);
    let log = log(&seen.config, pod, &container.name, number);
    Ok(ContainerSpec {
        id: seen.id(&container.name, number),
        hostname,
        argv,
        env,
        working_dir: container.working_dir.as_ref().filter(|d| !d.is_empty()).map(PathBuf::from),
        mounts,
        devices,
        hidden: seen.config.hidden.clone(),
        security: Default::default(),
        resources: Default::default(),
        log,
    })
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
    pod.spec.as_ref().and_then(|s| s.hostname.as_deref()).unwrap_or(pod.name())
}

fn mount_bindings(
    container: &Container,
    volumes: &BTreeMap<String, VolumeAt>,
) -> Result<Vec<Binding>, Problem> {
    let mut bindings = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let Some(at) = volumes.get(&mount.name) else {
            return Err(config(format!("volume {:?} is not mounted", mount.name)));
        };
        let read_only = at.read_only || mount.read_only.unwrap_or(false);
        bindings.push(Binding::new(&at.path, absolute(&mount.mount_path)).read_only(read_only));
    }
    // Parents before what is mounted inside them.
    bindings.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(bindings)
}

fn device_bindings(
    container: &Container,
    volumes: &BTreeMap<String, VolumeAt>,
) -> Result<Vec<Binding>, Problem> {
    let binding = |device: &k8s_openapi::api::core::v1::VolumeDevice| match volumes.get(&device.name) {
        Some(at) => Ok(Binding::new(&at.path, absolute(&device.device_path)).read_only(at.read_only)),
        None => Err(config(format!("volume {:?} is not mapped", device.name))),
    };
    container.volume_devices.iter().flatten().map(binding).collect()
}

fn absolute(path: &str) -> PathBuf {
    Path::new("/").join(path)
}

/// Variables in order; each may use those before it.
fn environment(pod: &Pod, container: &Container, hostname: &str) -> Result<Vec<(String, String)>, Problem> {
    let mut env =
        vec![("PATH".to_owned(), DEFAULT_PATH.to_owned()), ("HOSTNAME".to_owned(), hostname.to_owned())];
    for variable in container.env.iter().flatten() {
        let value = value(pod, variable, &env)?;
        env.retain(|(name, _)| *name != variable.name);
        env.push((variable.name.clone(), value));
    }
    Ok(env)
}

fn value(pod: &Pod, variable: &EnvVar, env: &[(String, String)]) -> Result<String, Problem> {
    let Some(from) = &variable.value_from else {
        return Ok(expand(variable.value.as_deref().unwrap_or_default(), env));
    };
    match &from.field_ref {
        Some(field) => field_value(pod, field),
        None => Err(config(format!(
            "env {:?}: valueFrom other than fieldRef is not supported here yet",
            variable.name
        ))),
    }
}

fn field_value(pod: &Pod, field: &ObjectFieldSelector) -> Result<String, Problem> {
    let spec = pod.spec.as_ref();
    if let Some(value) = downward::metadata_field(pod, &field.field_path) {
        return Ok(value);
    }
    Ok(match field.field_path.as_str() {
        "spec.nodeName" => pod::node_name(pod).to_owned(),
        "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()).unwrap_or_default(),
        "status.podIP" | "status.hostIP" | "status.podIPs" | "status.hostIPs" => POD_IP.to_owned(),
        other => return Err(config(format!("unsupported fieldPath: {other}"))),
    })
}

/// Replaces `$(NAME)`; `$$(NAME)` stands for itself, and so does a name that is not known.
pub fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        if let Some(escaped) = tail.strip_prefix('$') {
            out.push('$');
            rest = escaped;
            continue;
        }
        let name = tail.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        let known = name.and_then(|(name, after)| {
            env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| (value, after))
        });
        match known {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push('$');
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    out
}
