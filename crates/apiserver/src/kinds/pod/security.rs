//! As whom containers run, and what they are kept from.

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
};

use super::containers::all;
use crate::field::Invalid;
use crate::kinds::check::{self, go, paths};

/// Users and groups of a kernel.
const IDS: std::ops::RangeInclusive<i64> = 0..=2_147_483_647;
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const APPARMOR_MAX: usize = 4095;
const SYSCTL_MAX: usize = 253;
const NO_SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const NOT_OWN_USERS: &str = "when `hostUsers` is false";

fn id_error(at: String, id: Option<i64>) -> Option<Invalid> {
    let wrong = id.filter(|id| !IDS.contains(id))?;
    Some(Invalid::invalid(at, wrong, check::range_text(*IDS.start(), *IDS.end())))
}

fn has_own_users(spec: &PodSpec) -> bool {
    spec.host_users == Some(false)
}

pub fn of_container(at: &str, context: &SecurityContext, spec: &PodSpec) -> Vec<Invalid> {
    let privileged = (context.privileged == Some(true))
        .then(|| Invalid::disallowed(format!("{at}.privileged"), "disallowed by cluster policy"));
    let mut errors: Vec<Invalid> = privileged.into_iter().collect();
    errors.extend(id_error(format!("{at}.runAsUser"), context.run_as_user));
    errors.extend(id_error(format!("{at}.runAsGroup"), context.run_as_group));
    if let Some(mount) = context.proc_mount.as_deref() {
        let field = format!("{at}.procMount");
        errors.extend(check::one_of(&field, mount, &["Default", "Unmasked"]));
        if mount == "Unmasked" && !has_own_users(spec) {
            let text = "`hostUsers` must be false to use `Unmasked`";
            errors.push(Invalid::invalid(field, mount, text));
        }
    }
    errors.extend(seccomp(&format!("{at}.seccompProfile"), context.seccomp_profile.as_ref()));
    if context.allow_privilege_escalation == Some(false) {
        errors.extend(escalation_errors(at, context));
    }
    errors.extend(apparmor(&format!("{at}.appArmorProfile"), context.app_armor_profile.as_ref()));
    errors
}

/// What grants privileges contradicts that none may be gained.
fn escalation_errors(at: &str, context: &SecurityContext) -> Vec<Invalid> {
    let refused = |what: &str| {
        let text = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
        go::invalid(at, "core.v1.SecurityContext", context, &text)
    };
    let added = context.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
    let privileged = (context.privileged == Some(true)).then(|| refused("`privileged` to true"));
    let admin = added.filter(|name| *name == "CAP_SYS_ADMIN");
    privileged.into_iter().chain(admin.map(|_| refused("`capabilities.Add` CAP_SYS_ADMIN"))).collect()
}

pub fn of_pod(spec_at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let Some(context) = &spec.security_context else { return Vec::new() };
    let at = format!("{spec_at}.securityContext");
    let mut errors = Vec::new();
    for (field, id) in [
        ("fsGroup", context.fs_group),
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
    ] {
        errors.extend(id_error(format!("{at}.{field}"), id));
    }
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        errors.extend(id_error(format!("{at}.supplementalGroups[{index}]"), Some(*group)));
    }
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let text = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Invalid::invalid(format!("{at}.shareProcessNamespace"), true, text));
    }
    errors.extend(sysctls(&format!("{at}.sysctls"), context, spec));
    let choices: [(&str, Option<&str>, &[&str]); 1] =
        [("fsGroupChangePolicy", context.fs_group_change_policy.as_deref(), &["Always", "OnRootMismatch"])];
    errors.extend(choice_errors(&at, &choices));
    errors.extend(seccomp(&format!("{at}.seccompProfile"), context.seccomp_profile.as_ref()));
    errors.extend(apparmor(&format!("{at}.appArmorProfile"), context.app_armor_profile.as_ref()));
    let choices: [(&str, Option<&str>, &[&str]); 2] = [
        ("supplementalGroupsPolicy", context.supplemental_groups_policy.as_deref(), &["Merge", "Strict"]),
        ("seLinuxChangePolicy", context.se_linux_change_policy.as_deref(), &["Recursive"]),
    ];
    errors.extend(choice_errors(&at, &choices));
    errors
}

fn choice_errors(at: &str, choices: &[(&str, Option<&str>, &[&str])]) -> Vec<Invalid> {
    let one = |(field, value, known): &(&str, Option<&str>, &[&str])| {
        value.and_then(|value| check::one_of(&format!("{at}.{field}"), value, known))
    };
    choices.iter().filter_map(one).collect()
}

fn seccomp(at: &str, profile: Option<&SeccompProfile>) -> Vec<Invalid> {
    let Some(profile) = profile else { return Vec::new() };
    let field = format!("{at}.type");
    let mut errors: Vec<Invalid> = match profile.type_.as_str() {
        "" => vec![Invalid::required(field, "type is required when seccompProfile is set")],
        type_ => check::one_of(&field, type_, &PROFILES).into_iter().collect(),
    };
    let field = format!("{at}.localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None) => {
            errors.push(Invalid::required(field, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(path)) => errors.extend(paths::descending(&field, path)),
        (_, Some(_)) => {
            let text = "can only be set when seccomp type is Localhost";
            errors.push(go::invalid(&field, "core.v1.SeccompProfile", profile, text));
        }
        (_, None) => {}
    }
    errors
}

fn apparmor(at: &str, profile: Option<&AppArmorProfile>) -> Vec<Invalid> {
    let Some(profile) = profile else { return Vec::new() };
    let missing = "must be set when AppArmor type is Localhost";
    let field = format!("{at}.localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => vec![Invalid::required(field, missing)],
        ("Localhost", Some(name)) => {
            let padded = (name.trim() != name)
                .then(|| Invalid::invalid(field.as_str(), name, "must not be padded with whitespace"));
            let long = (name.len() > APPARMOR_MAX).then(|| check::too_long(field, APPARMOR_MAX));
            padded.into_iter().chain(long).collect()
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            vec![Invalid::invalid(field, name, "can only be set when AppArmor type is Localhost")]
        }
        ("RuntimeDefault" | "Unconfined", None) => Vec::new(),
        ("", _) => {
            vec![Invalid::required(format!("{at}.type"), "type is required when appArmorProfile is set")]
        }
        (other, _) => check::one_of(&format!("{at}.type"), other, &PROFILES).into_iter().collect(),
    }
}

fn sysctls(at: &str, context: &PodSecurityContext, spec: &PodSpec) -> Vec<Invalid> {
    let all = context.sysctls.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    for (index, sysctl) in all.iter().enumerate() {
        let (at, name) = (format!("{at}[{index}].name"), sysctl.name.as_str());
        if name.is_empty() {
            errors.push(Invalid::required(at.as_str(), ""));
        } else if !is_sysctl(name) {
            errors.push(Invalid::invalid(at.as_str(), name, NO_SYSCTL));
        } else if all[..index].iter().any(|earlier| earlier.name == name) {
            errors.push(Invalid::duplicate(at.as_str(), name));
        }
        let dotted = name.replace('/', ".");
        let of_network = dotted.starts_with("net.");
        let of_ipc =
            ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix))
                || dotted == "kernel.sem";
        if of_network && spec.host_network == Some(true) {
            errors.push(Invalid::invalid(at, name, "may not be specified when 'hostNetwork' is true"));
        } else if of_ipc && spec.host_ipc == Some(true) {
            errors.push(Invalid::invalid(at, name, "may not be specified when 'hostIPC' is true"));
        }
    }
    errors
}

fn is_sysctl(name: &str) -> bool {
    let end = |c: Option<&u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let segment = |text: &str| {
        let bytes = text.as_bytes();
        let inner = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
        end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
    };
    name.len() <= SYSCTL_MAX && name.split(['.', '/']).all(segment)
}

/// Windows containers on the host itself: all of a pod or none, on the host's network, where privileged ones are allowed.
pub fn host_process(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let own = spec.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
    let own = own.and_then(|options| options.host_process);
    let containers = all(at, spec);
    let (mut errors, mut count) = (Vec::new(), 0);
    for (path, one) in &containers {
        let options = one.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
        let asked = options.and_then(|options| options.host_process);
        if let (Some(own), Some(asked)) = (own, asked)
            && own != asked
        {
            let field = format!("{path}.securityContext.windowsOptions.hostProcess");
            let text = format!("pod hostProcess value must be identical if both are specified, was {own}");
            errors.push(Invalid::invalid(field, asked, text));
        }
        count += usize::from(asked.or(own) == Some(true));
    }
    if count == 0 {
        return errors;
    }
    if count != containers.len() {
        let text =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Invalid::invalid(at, "", text));
    }
    if spec.host_network != Some(true) {
        let text = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Invalid::invalid(format!("{at}.hostNetwork"), false, text));
    }
    errors.push(Invalid::disallowed(at, "hostProcess containers are disallowed by cluster policy"));
    errors
}

/// Devices and the host's namespaces know no other users than the host's.
pub fn host_users(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    if !has_own_users(spec) {
        return Vec::new();
    }
    let (network, process, ipc) = (spec.host_network, spec.host_pid, spec.host_ipc);
    let shared = [("hostNetwork", network), ("HostPID", process), ("HostIPC", ipc)];
    let shared = shared.into_iter().filter(|(_, on)| *on == Some(true));
    let mut errors: Vec<Invalid> =
        shared.map(|(field, _)| Invalid::forbidden(format!("{at}.{field}"), NOT_OWN_USERS)).collect();
    let with_device =
        |one: &Container| one.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty());
    for (path, one) in all(at, spec) {
        if with_device(&one) {
            errors.push(Invalid::forbidden(format!("{path}.volumeDevices"), NOT_OWN_USERS));
        }
    }
    errors
}
