//! What of a pod cannot be done here: it waits for ever, and says why. docs/pod-fields.md has every field. Pure.

use bowline_api::build::HOST_IMAGE;
use bowline_api::{Container, Pod, pod};
use k8s_openapi::api::core::v1::{
    AppArmorProfile, ContainerPort, LifecycleHandler, PodSecurityContext, PodSpec, Probe, SecurityContext,
    Volume, VolumeMount,
};

use super::{Problem, config, resources, security};
use crate::kubelet::localvolumes;
use crate::kubelet::pods::handlers::signal_number;

/// The first thing that keeps a container from running, whatever changes outside its pod.
pub fn refused(pod: &Pod, container: &Container, allow_privileged: bool) -> Option<Problem> {
    let spec = pod.spec.as_ref()?;
    let check = || {
        of_image(container)?;
        of_pod(spec).map_err(config)?;
        of_container(container).map_err(config)?;
        of_volumes(pod, container).map_err(config)?;
        resources::resources(container)?;
        security::security(pod, container, allow_privileged).map(drop)
    };
    check().err()
}

type Checked = Result<(), String>;

fn refuse(what: impl Into<String>) -> Checked {
    Err(format!("{} is not supported here", what.into()))
}

/// Refuses a field that is set.
fn unless(set: bool, what: &str) -> Checked {
    if set { refuse(what) } else { Ok(()) }
}

fn some<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}

fn of_image(container: &Container) -> Result<(), Problem> {
    let image = container.image.as_deref().unwrap_or_default();
    let bad = |letter: char| letter.is_whitespace() || letter.is_control() || letter.is_ascii_uppercase();
    let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
    if image.is_empty()
        || name.split([':', '@']).next().is_none_or(|name| name.is_empty() || name.contains(bad))
    {
        let message = format!(
            "Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: invalid reference format"
        );
        return Err(Problem { reason: "InvalidImageName", message });
    }
    if image != HOST_IMAGE {
        let message = format!("image {image:?}: only the built-in image {HOST_IMAGE:?} can run here yet");
        return Err(Problem { reason: "ErrImagePull", message });
    }
    Ok(())
}

fn of_pod(spec: &PodSpec) -> Checked {
    unless(spec.host_pid == Some(true), "hostPID")?;
    unless(spec.host_ipc == Some(true), "hostIPC")?;
    unless(spec.share_process_namespace == Some(true), "shareProcessNamespace")?;
    unless(spec.host_users == Some(false), "hostUsers: false")?;
    unless(spec.os.as_ref().is_some_and(|os| os.name != "linux"), "os other than linux")?;
    unless(some(spec.host_aliases.as_ref()), "hostAliases")?;
    unless(spec.dns_config.is_some(), "dnsConfig")?;
    unless(spec.dns_policy.as_deref() == Some("None"), "dnsPolicy None")?;
    unless(spec.set_hostname_as_fqdn == Some(true), "setHostnameAsFQDN")?;
    unless(some(spec.resource_claims.as_ref()), "resourceClaims")?;
    unless(spec.resources.is_some(), "resources of the pod as a whole")?;
    unless(spec.overhead.as_ref().is_some_and(|overhead| !overhead.is_empty()), "overhead")?;
    unless(spec.scheduling_group.is_some(), "schedulingGroup")?;
    if let Some(class) = spec.runtime_class_name.as_ref().filter(|class| !class.is_empty()) {
        return Err(format!("RuntimeClass {class:?} is not known here: there is only the default runtime"));
    }
    of_placement(spec)?;
    spec.security_context.as_ref().map_or(Ok(()), of_pod_security)
}

/// What the scheduler does not look at: a pod must not run where its spec says that it shall not.
fn of_placement(spec: &PodSpec) -> Checked {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let near = near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref());
    unless(some(near), "requiredDuringSchedulingIgnoredDuringExecution of podAffinity")?;
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let apart = apart.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref());
    unless(some(apart), "requiredDuringSchedulingIgnoredDuringExecution of podAntiAffinity")?;
    let mut spread = spec.topology_spread_constraints.iter().flatten();
    unless(
        spread.any(|constraint| constraint.when_unsatisfiable != "ScheduleAnyway"),
        "topologySpreadConstraints with whenUnsatisfiable DoNotSchedule",
    )
}

fn of_pod_security(context: &PodSecurityContext) -> Checked {
    unless(some(context.sysctls.as_ref()), "sysctls")?;
    unless(context.se_linux_options.is_some(), "seLinuxOptions")?;
    unless(context.windows_options.is_some(), "windowsOptions")?;
    app_armor(context.app_armor_profile.as_ref())
}

fn of_security(context: &SecurityContext) -> Checked {
    unless(context.se_linux_options.is_some(), "seLinuxOptions")?;
    unless(context.windows_options.is_some(), "windowsOptions")?;
    let proc_mount = context.proc_mount.as_deref().unwrap_or("Default");
    unless(proc_mount != "Default", "procMount other than Default")?;
    app_armor(context.app_armor_profile.as_ref())
}

/// No profile is ever loaded, so only its absence can be promised.
fn app_armor(profile: Option<&AppArmorProfile>) -> Checked {
    unless(
        profile.is_some_and(|profile| profile.type_ != "Unconfined"),
        "appArmorProfile other than Unconfined",
    )
}

fn of_container(container: &Container) -> Checked {
    unless(container.restart_policy.is_some(), "restartPolicy of a container")?;
    unless(some(container.restart_policy_rules.as_ref()), "restartPolicyRules")?;
    unless(container.stdin == Some(true), "stdin")?;
    unless(container.stdin_once == Some(true), "stdinOnce")?;
    unless(container.tty == Some(true), "tty")?;
    if container.command.as_ref().is_none_or(Vec::is_empty)
        && container.args.as_ref().is_none_or(Vec::is_empty)
    {
        return Err("no command specified".into());
    }
    let from_file = |from: &k8s_openapi::api::core::v1::EnvVarSource| from.file_key_ref.is_some();
    let mut env = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    unless(env.any(from_file), "fileKeyRef")?;
    container.ports.iter().flatten().try_for_each(of_port)?;
    container.volume_mounts.iter().flatten().try_for_each(of_mount)?;
    container.security_context.as_ref().map_or(Ok(()), of_security)?;
    let probes = [&container.liveness_probe, &container.readiness_probe, &container.startup_probe];
    probes.into_iter().flatten().try_for_each(of_probe)?;
    let Some(lifecycle) = &container.lifecycle else { return Ok(()) };
    [&lifecycle.post_start, &lifecycle.pre_stop].into_iter().flatten().try_for_each(of_hook)?;
    let signal = lifecycle.stop_signal.as_deref().filter(|name| signal_number(name).is_none());
    signal.map_or(Ok(()), |name| refuse(format!("stopSignal {name}")))
}

/// Pods share the machine's network: a port of a container is the same port of the machine.
fn of_port(port: &ContainerPort) -> Checked {
    let elsewhere = port.host_port.is_some_and(|number| number != 0 && number != port.container_port);
    unless(elsewhere, "hostPort other than containerPort")?;
    unless(port.host_ip.as_ref().is_some_and(|ip| !ip.is_empty()), "hostIP of a port")
}

fn of_mount(mount: &VolumeMount) -> Checked {
    let propagation = mount.mount_propagation.as_deref().unwrap_or("None");
    unless(propagation != "None", "mountPropagation other than None")
}

fn of_probe(probe: &Probe) -> Checked {
    unless(probe.grpc.is_some(), "grpc probe")?;
    let https = probe.http_get.as_ref().is_some_and(|get| get.scheme.as_deref() == Some("HTTPS"));
    unless(https, "scheme HTTPS of a probe")
}

fn of_hook(hook: &LifecycleHandler) -> Checked {
    unless(hook.tcp_socket.is_some(), "tcpSocket of a hook")?;
    let https = hook.http_get.as_ref().is_some_and(|get| get.scheme.as_deref() == Some("HTTPS"));
    unless(https, "scheme HTTPS of a hook")
}

fn of_volumes(pod: &Pod, container: &Container) -> Checked {
    let mounted = container.volume_mounts.iter().flatten().map(|mount| &mount.name);
    let named = mounted.chain(container.volume_devices.iter().flatten().map(|device| &device.name));
    let mut volumes = named.filter_map(|name| pod::volumes(pod).iter().find(|volume| volume.name == *name));
    volumes.find_map(of_volume).map_or(Ok(()), Err)
}

fn of_volume(volume: &Volume) -> Option<String> {
    if let Some(empty) = &volume.empty_dir {
        let medium = empty.medium.as_deref().unwrap_or_default();
        let wrong = match medium {
            "Memory" => None,
            "" if empty.size_limit.is_some() => Some("sizeLimit of an emptyDir on disk"),
            "" => None,
            _ => Some("medium of huge pages"),
        };
        return wrong.map(|what| format!("volume {:?}: {what} is not supported here", volume.name));
    }
    let claimed =
        volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() || volume.csi.is_some();
    localvolumes::problem(volume).or_else(|| {
        let message = format!("volume {:?}: its plugin is not supported here yet", volume.name);
        (!claimed && !localvolumes::makes(volume)).then_some(message)
    })
}
