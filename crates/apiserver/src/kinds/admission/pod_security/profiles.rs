//! Profiles of Linux security modules, which the level `baseline` limits.

use std::collections::BTreeSet;

use bowline_api::keys;
use k8s_openapi::api::core::v1::{SELinuxOptions, SeccompProfile};

use super::subject::Subject;
use super::violation::{Values, Violation, plural, quoted, setters};
use crate::golang;

const SELINUX_TYPES: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];
/// Allowed since this version.
const SELINUX_ENGINE: (u64, &str) = (31, "container_engine_t");

/// Of a deprecated annotation.
fn is_known_profile(value: &str) -> bool {
    value == "runtime/default" || value.starts_with("localhost/")
}

pub fn apparmor(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let wrong = |type_: &str| !matches!(type_, "RuntimeDefault" | "Localhost");
    let own = pod.context().and_then(|context| context.app_armor_profile.as_ref());
    let own = own.map(|profile| profile.type_.as_str()).filter(|type_| wrong(type_));
    let mut values: Values<'_> = own.into_iter().collect();
    let mut names = Vec::new();
    for one in &pod.containers {
        let profile = one.context.and_then(|context| context.app_armor_profile.as_ref());
        if let Some(type_) = profile.map(|profile| profile.type_.as_str()).filter(|type_| wrong(type_)) {
            names.push(one.name);
            values.insert(type_);
        }
    }
    let annotated = pod.annotations.iter().filter(|(key, value)| {
        key.starts_with(keys::APPARMOR_CONTAINER_PREFIX) && !value.is_empty() && !is_known_profile(value)
    });
    let mut annotated: Vec<String> =
        annotated.map(|(key, value)| format!("{key}={}", golang::quoted(value))).collect();
    annotated.sort();
    let annotations =
        (!annotated.is_empty()).then(|| plural("annotation", "annotations", annotated.len()).to_owned());
    let who: Vec<String> = setters(own.is_some(), &names).into_iter().chain(annotations).collect();
    if who.is_empty() {
        return None;
    }
    let values: Vec<&str> = values.into_iter().chain(annotated.iter().map(String::as_str)).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values));
    Some(Violation::new(reason, detail))
}

/// What is wrong with the options of a pod or a container.
struct SELinuxFault<'a> {
    type_: Option<&'a str>,
    user: bool,
    role: bool,
}

impl<'a> SELinuxFault<'a> {
    fn of(options: &'a SELinuxOptions, minor: u64) -> Option<Self> {
        let filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        let known = |type_: &str| {
            SELINUX_TYPES.contains(&type_) || (minor >= SELINUX_ENGINE.0 && type_ == SELINUX_ENGINE.1)
        };
        let type_ = options.type_.as_deref().filter(|type_| !known(type_));
        let (user, role) = (filled(&options.user), filled(&options.role));
        (type_.is_some() || user || role).then_some(Self { type_, user, role })
    }
}

pub fn selinux(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    let own = pod.context().and_then(|context| context.se_linux_options.as_ref());
    let own = own.and_then(|options| SELinuxFault::of(options, minor));
    let (mut names, mut faults) = (Vec::new(), Vec::new());
    for one in &pod.containers {
        let options = one.context.and_then(|context| context.se_linux_options.as_ref());
        if let Some(fault) = options.and_then(|options| SELinuxFault::of(options, minor)) {
            names.push(one.name);
            faults.push(fault);
        }
    }
    let who = setters(own.is_some(), &names)?;
    faults.extend(own);
    let types: Values<'_> = faults.iter().filter_map(|fault| fault.type_).collect();
    let shown = (!types.is_empty())
        .then(|| format!("{} {}", plural("type", "types", types.len()), quoted(types.iter().copied())));
    let user = faults.iter().any(|fault| fault.user).then(|| "user may not be set".to_owned());
    let role = faults.iter().any(|fault| fault.role).then(|| "role may not be set".to_owned());
    let what: Vec<String> = shown.into_iter().chain(user).chain(role).collect();
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; "));
    Some(Violation::new("seLinuxOptions", detail))
}

/// Before v1.19 there were annotations only.
pub fn seccomp(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    if minor < 19 { seccomp_annotations(pod) } else { seccomp_fields(pod) }
}

fn seccomp_annotations(pod: &Subject<'_>) -> Option<Violation> {
    let of_containers =
        pod.containers.iter().map(|one| format!("{}{}", keys::SECCOMP_CONTAINER_PREFIX, one.name));
    let keys = std::iter::once(keys::SECCOMP_POD.to_owned()).chain(of_containers);
    let forbidden = keys.filter_map(|key| {
        let value = pod.annotations.get(&key).filter(|value| !is_known_profile(value))?;
        (value != "docker/default").then(|| format!("{key}={}", golang::quoted(value)))
    });
    let forbidden: BTreeSet<String> = forbidden.collect();
    (!forbidden.is_empty()).then(|| {
        let word = plural("annotation", "annotations", forbidden.len());
        let shown = forbidden.into_iter().collect::<Vec<_>>().join(", ");
        Violation::new("seccompProfile", format!("forbidden {word} {shown}"))
    })
}

pub fn is_wrong_seccomp(profile: &SeccompProfile) -> bool {
    !matches!(profile.type_.as_str(), "Localhost" | "RuntimeDefault")
}

/// Who asks for a profile that is none.
pub fn seccomp_fields(pod: &Subject<'_>) -> Option<Violation> {
    let own = pod.context().and_then(|context| context.seccomp_profile.as_ref());
    let own = own.filter(|profile| is_wrong_seccomp(profile));
    let (mut names, mut values) = (Vec::new(), Values::new());
    values.extend(own.map(|profile| profile.type_.as_str()));
    for one in &pod.containers {
        let profile = one.context.and_then(|context| context.seccomp_profile.as_ref());
        if let Some(profile) = profile.filter(|profile| is_wrong_seccomp(profile)) {
            names.push(one.name);
            values.insert(&profile.type_);
        }
    }
    let who = setters(own.is_some(), &names)?;
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(values));
    Some(Violation::new("seccompProfile", detail))
}
