//! As whom the processes of a container run, and what they may do. Pure.

use std::collections::BTreeSet;

use bowline_api::{Container, Pod};
use bowline_host::containers::{DEFAULT_CAPABILITIES, Seccomp, Security};
use k8s_openapi::api::core::v1::{PodSecurityContext, SeccompProfile, SecurityContext};

use super::{Problem, config};

/// The user that the built-in image names: root.
const IMAGE_USER: i64 = 0;

/// Capabilities besides the default ones that reach nothing outside a container's own namespaces.
const HARMLESS: [&str; 3] = ["IPC_LOCK", "IPC_OWNER", "LEASE"];

/// All others: each of them acts on the machine, its network or other pods, because pods share the kernel, the network
/// and the user namespace. SYS_PTRACE is among them because a container's first process keeps more rights than the
/// workload, NET_ADMIN and NET_RAW because the network is the machine's, DAC_READ_SEARCH because it opens files by their
/// handle past every mount.
const FAR_REACHING: [&str; 26] = [
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "DAC_READ_SEARCH",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];

const ALL: &str = "ALL";

/// What can be honoured. `allow_privileged` is the node's setting.
pub fn security(pod: &Pod, container: &Container, allow_privileged: bool) -> Result<Security, Problem> {
    let (none, no_pod) = (SecurityContext::default(), PodSecurityContext::default());
    let own = container.security_context.as_ref().unwrap_or(&none);
    let shared = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()).unwrap_or(&no_pod);
    let privileged = own.privileged == Some(true);
    if privileged && !allow_privileged {
        return Err(config(
            "privileged containers are not allowed on this node; start it with --allow-privileged".into(),
        ));
    }
    let user = own.run_as_user.or(shared.run_as_user);
    if own.run_as_non_root.or(shared.run_as_non_root) == Some(true) {
        not_root(pod, container, user)?;
    }
    let groups: BTreeSet<i64> =
        shared.supplemental_groups.iter().flatten().copied().chain(shared.fs_group).collect();
    let capabilities = if privileged { every() } else { capabilities(own, allow_privileged)? };
    let unconfined = privileged.then_some(Seccomp::Unconfined);
    let profile = own.seccomp_profile.as_ref().or(shared.seccomp_profile.as_ref());
    Ok(Security {
        uid: id("runAsUser", user.unwrap_or(IMAGE_USER))?,
        gid: id("runAsGroup", own.run_as_group.or(shared.run_as_group).unwrap_or(0))?,
        groups: groups.into_iter().map(|group| id("supplementalGroups", group)).collect::<Result<_, _>>()?,
        capabilities,
        no_new_privileges: own.allow_privilege_escalation == Some(false),
        read_only_root: own.read_only_root_filesystem == Some(true),
        seccomp: unconfined.or(seccomp(profile)?).unwrap_or(Seccomp::RuntimeDefault),
    })
}

/// In upstream's words.
fn not_root(pod: &Pod, container: &Container, user: Option<i64>) -> Result<(), Problem> {
    let of = format!("{:?}, container: {}", super::pod_text(pod), container.name);
    match user {
        Some(0) => Err(config(format!("container's runAsUser breaks non-root policy (pod: {of})"))),
        Some(_) => Ok(()),
        None => Err(config(format!("container has runAsNonRoot and image will run as root (pod: {of})"))),
    }
}

/// The kernel takes the largest number of 32 bits as "leave it as it is", which would be root.
fn id(field: &str, id: i64) -> Result<u32, Problem> {
    let number = u32::try_from(id).ok().filter(|number| *number != u32::MAX);
    number.ok_or_else(|| config(format!("{field} {id} is no number of a user or group")))
}

fn seccomp(profile: Option<&SeccompProfile>) -> Result<Option<Seccomp>, Problem> {
    match profile.map(|profile| profile.type_.as_str()) {
        None => Ok(None),
        Some("RuntimeDefault") => Ok(Some(Seccomp::RuntimeDefault)),
        Some("Unconfined") => Ok(Some(Seccomp::Unconfined)),
        Some(other) => Err(config(format!("seccompProfile {other} is not supported; use RuntimeDefault"))),
    }
}

/// As container runtimes put them together: `ALL` first, then what is added, then what is dropped.
fn capabilities(own: &SecurityContext, allow_privileged: bool) -> Result<BTreeSet<String>, Problem> {
    let asked = own.capabilities.clone().unwrap_or_default();
    let (add, drop) = (names(asked.add)?, names(asked.drop)?);
    let reaching = |name: &&String| *name == ALL || FAR_REACHING.contains(&name.as_str());
    if let Some(name) = add.iter().find(reaching).filter(|_| !allow_privileged) {
        return Err(config(format!(
            "capability {name} reaches beyond the container and is not allowed on this node; start it with --allow-privileged"
        )));
    }
    let mut held: BTreeSet<String> = match (add.contains(ALL), drop.contains(ALL)) {
        (_, true) => BTreeSet::new(),
        (true, false) => every(),
        (false, false) => DEFAULT_CAPABILITIES.map(str::to_owned).into(),
    };
    held.extend(add.into_iter().filter(|name| name != ALL));
    held.retain(|name| !drop.contains(name));
    Ok(held)
}

/// Names as the kernel has them, without its prefix, whatever their case.
fn names(listed: Option<Vec<String>>) -> Result<BTreeSet<String>, Problem> {
    let known = every();
    let name = |listed: String| {
        let upper = listed.to_uppercase();
        let name = upper.strip_prefix("CAP_").unwrap_or(&upper).to_owned();
        let wrong = || config(format!("capability {listed:?} is not known"));
        if name == ALL || known.contains(&name) { Ok(name) } else { Err(wrong()) }
    };
    listed.into_iter().flatten().map(name).collect()
}

fn every() -> BTreeSet<String> {
    let all = DEFAULT_CAPABILITIES.iter().chain(&HARMLESS).chain(&FAR_REACHING);
    all.map(|name| (*name).to_owned()).collect()
}
