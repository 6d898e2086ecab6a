//! The checks of the level `baseline`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ContainerPort, LifecycleHandler, Probe};

use super::subject::Subject;
use super::violation::{Values, Violation, containers, plural, quoted, setters};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Since which version each is safe.
const SYSCTLS: [(u64, &str); 12] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

pub fn capabilities(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let (mut values, mut names) = (Values::new(), Vec::new());
    for one in &pod.containers {
        let capabilities = one.context.and_then(|context| context.capabilities.as_ref());
        let added = capabilities.and_then(|capabilities| capabilities.add.as_deref()).unwrap_or_default();
        let wrong: Vec<&str> =
            added.iter().map(String::as_str).filter(|name| !CAPABILITIES.contains(name)).collect();
        if !wrong.is_empty() {
            names.push(one.name);
            values.extend(wrong);
        }
    }
    (!names.is_empty()).then(|| {
        let (who, what) = (containers(&names), quoted(values));
        let detail = format!("{who} must not include {what} in securityContext.capabilities.add");
        Violation::new("non-default capabilities", detail)
    })
}

pub fn host_namespaces(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let spec = pod.spec;
    let all = [
        ("hostNetwork=true", spec.host_network),
        ("hostPID=true", spec.host_pid),
        ("hostIPC=true", spec.host_ipc),
    ];
    let shared: Vec<&str> =
        all.into_iter().filter(|(_, on)| *on == Some(true)).map(|(text, _)| text).collect();
    (!shared.is_empty()).then(|| Violation::new("host namespaces", shared.join(", ")))
}

pub fn host_path_volumes(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let volumes = pod.spec.volumes.iter().flatten().filter(|volume| volume.host_path.is_some());
    let names: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let detail = format!("{} {}", plural("volume", "volumes", names.len()), quoted(names));
        Violation::new("hostPath volumes", detail)
    })
}

pub fn host_ports(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let taken = |port: &ContainerPort| port.host_port.filter(|port| *port != 0);
    let names = pod.named(|one| one.ports.iter().any(|port| taken(port).is_some()));
    if names.is_empty() {
        return None;
    }
    let ports = pod.containers.iter().flat_map(|one| one.ports.iter().filter_map(taken));
    // Sorted as texts.
    let ports: BTreeSet<String> = ports.map(|port| port.to_string()).collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&names),
        plural("uses", "use", names.len()),
        plural("hostPort", "hostPorts", ports.len()),
        ports.into_iter().collect::<Vec<_>>().join(", "),
    );
    Some(Violation::new("hostPort", detail))
}

pub fn host_probes(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let (mut names, mut hosts) = (Values::new(), Values::new());
    for one in &pod.containers {
        let handlers = one.lifecycle.iter().flat_map(|hooks| [&hooks.post_start, &hooks.pre_stop]);
        let of_hooks = handlers.flatten().flat_map(hosts_of_hook);
        let of_probes = one.probes.iter().flatten().flat_map(|probe| hosts_of_probe(probe));
        let wrong: Vec<&str> = of_probes.chain(of_hooks).filter(|host| !host.is_empty()).collect();
        if !wrong.is_empty() {
            names.insert(one.name);
            hosts.extend(wrong);
        }
    }
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| {
        let detail = format!(
            "{} {} {} {}",
            containers(&names),
            plural("uses", "use", names.len()),
            plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
            quoted(hosts),
        );
        Violation::new("probe or lifecycle host", detail)
    })
}

fn hosts_of_probe(probe: &Probe) -> impl Iterator<Item = &str> {
    let http = probe.http_get.as_ref().and_then(|http| http.host.as_deref());
    let tcp = probe.tcp_socket.as_ref().and_then(|tcp| tcp.host.as_deref());
    http.into_iter().chain(tcp)
}

fn hosts_of_hook(hook: &LifecycleHandler) -> impl Iterator<Item = &str> {
    let http = hook.http_get.as_ref().and_then(|http| http.host.as_deref());
    let tcp = hook.tcp_socket.as_ref().and_then(|tcp| tcp.host.as_deref());
    http.into_iter().chain(tcp)
}

pub fn privileged(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let names = pod.named_by_context(|context| context.privileged == Some(true));
    (!names.is_empty()).then(|| {
        let detail = format!("{} must not set securityContext.privileged=true", containers(&names));
        Violation::new("privileged", detail)
    })
}

/// Since v1.35 a pod with users of its own may see all of /proc.
pub fn proc_mount(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    if minor >= 35 && pod.has_own_users() { None } else { proc_mount_of_any(pod, minor) }
}

pub fn proc_mount_of_any(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let (mut names, mut values) = (Vec::new(), Values::new());
    for one in &pod.containers {
        let mount = one.context.and_then(|context| context.proc_mount.as_deref());
        if let Some(mount) = mount.filter(|mount| *mount != "Default") {
            names.push(one.name);
            values.insert(mount);
        }
    }
    (!names.is_empty()).then(|| {
        let (who, what) = (containers(&names), quoted(values));
        Violation::new("procMount", format!("{who} must not set securityContext.procMount to {what}"))
    })
}

pub fn sysctls(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    let all = pod.context().and_then(|context| context.sysctls.as_deref()).unwrap_or_default();
    let safe = |name: &str| SYSCTLS.iter().any(|(since, safe)| *since <= minor && *safe == name);
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).filter(|name| !safe(name)).collect();
    (!names.is_empty()).then(|| Violation::new("forbidden sysctls", names.join(", ")))
}

pub fn windows_host_process(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let own = pod.context().and_then(|context| context.windows_options.as_ref());
    let of_pod = own.is_some_and(|options| options.host_process == Some(true));
    let names = pod.named_by_context(|context| {
        context.windows_options.as_ref().is_some_and(|options| options.host_process == Some(true))
    });
    let who = setters(of_pod, &names)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation::new("hostProcess", detail))
}
