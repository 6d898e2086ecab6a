//! How containers see volumes: mounted, or as a raw device, never both.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeDevice, VolumeMount};

use super::containers::Volumes;
use crate::field::Invalid;
use crate::kinds::check::{self, paths};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

pub fn errors(at: &str, one: &Container, volumes: &Volumes<'_>) -> Vec<Invalid> {
    let mounts = one.volume_mounts.as_deref().unwrap_or_default();
    let devices = one.volume_devices.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let field = format!("{at}.volumeMounts[{index}]");
        let first = seen.insert(mount.mount_path.as_str());
        errors.extend(mount_errors(&field, mount, first, devices, volumes));
        // Upstream leaves the index out of these paths.
        errors.extend(sub_path_errors(&format!("{at}.volumeMounts"), &field, mount));
        errors.extend(propagation_errors(&format!("{at}.volumeMounts.mountPropagation"), mount, one));
        errors.extend(recursive_errors(&format!("{at}.volumeMounts.recursiveReadOnly"), mount));
    }
    errors.extend(device_list_errors(&format!("{at}.volumeDevices"), devices, mounts, volumes));
    errors
}

fn mount_errors(
    at: &str,
    mount: &VolumeMount,
    first: bool,
    devices: &[VolumeDevice],
    volumes: &Volumes<'_>,
) -> Vec<Invalid> {
    let (name, path) = (mount.name.as_str(), mount.mount_path.as_str());
    let mut errors = Vec::new();
    errors.extend(check::required(&format!("{at}.name"), Some(name)));
    if !volumes.contains_key(name) {
        errors.push(check::not_found(format!("{at}.name"), name));
    }
    errors.extend(check::required(&format!("{at}.mountPath"), Some(path)));
    if !first {
        errors.push(Invalid::invalid(format!("{at}.mountPath"), path, "must be unique"));
    }
    if devices.iter().any(|device| device.name == name) {
        let text = "must not already exist in volumeDevices";
        errors.push(Invalid::invalid(format!("{at}.name"), name, text));
    }
    if devices.iter().any(|device| device.device_path == path) {
        let text = "must not already exist as a path in volumeDevices";
        errors.push(Invalid::invalid(format!("{at}.mountPath"), path, text));
    }
    errors
}

fn sub_path_errors(at: &str, indexed: &str, mount: &VolumeMount) -> Vec<Invalid> {
    let path = mount.sub_path.as_deref().unwrap_or_default();
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    let mut errors = paths::descending(&format!("{at}.subPath"), path);
    if !path.is_empty() && !expression.is_empty() {
        let text = "subPathExpr and subPath are mutually exclusive";
        errors.push(Invalid::invalid(format!("{indexed}.subPathExpr"), expression, text));
    }
    errors.extend(paths::descending(&format!("{at}.subPathExpr"), expression));
    errors
}

fn propagation_errors(at: &str, mount: &VolumeMount, one: &Container) -> Vec<Invalid> {
    let Some(mode) = mount.mount_propagation.as_deref() else { return Vec::new() };
    let privileged = one.security_context.as_ref().and_then(|s| s.privileged).unwrap_or(false);
    let outward = mode == "Bidirectional" && !privileged;
    let text = "Bidirectional mount propagation is available only to privileged containers";
    let unknown = check::one_of(at, mode, &PROPAGATIONS);
    unknown.into_iter().chain(outward.then(|| Invalid::forbidden(at, text))).collect()
}

/// Read-only all the way down needs a mount that is read-only to begin with, and that nothing appears in.
fn recursive_errors(at: &str, mount: &VolumeMount) -> Vec<Invalid> {
    let Some(mode) = mount.recursive_read_only.as_deref() else { return Vec::new() };
    if !matches!(mode, "Enabled" | "IfPossible") {
        return check::one_of(at, mode, &["Disabled", "Enabled", "IfPossible"]).into_iter().collect();
    }
    let shared = !matches!(mount.mount_propagation.as_deref(), None | Some("None"));
    let refusals = [
        (mount.read_only != Some(true), "may only be specified when readOnly is true"),
        (shared, "may only be specified when mountPropagation is None or not specified"),
    ];
    refusals.into_iter().filter(|(wrong, _)| *wrong).map(|(_, text)| Invalid::forbidden(at, text)).collect()
}

fn device_list_errors(
    at: &str,
    devices: &[VolumeDevice],
    mounts: &[VolumeMount],
    volumes: &Volumes<'_>,
) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let (name, path) = (device.name.as_str(), device.device_path.as_str());
        let earlier = &devices[..index];
        let unique = |taken: bool, field: &str, value: &str| {
            taken.then(|| Invalid::invalid(format!("{at}.{field}"), value, "must be unique"))
        };
        errors.extend(check::required(&format!("{at}.name"), Some(name)));
        errors.extend(unique(!name.is_empty() && earlier.iter().any(|d| d.name == name), "name", name));
        errors.extend(device_errors(&at, device, volumes));
        errors.extend(check::required(&format!("{at}.devicePath"), Some(path)));
        errors.extend(unique(earlier.iter().any(|d| d.device_path == path), "devicePath", path));
        if paths::climbs(path) {
            let text = "can not contain backsteps ('..')";
            errors.push(Invalid::invalid(format!("{at}.devicePath"), path, text));
        }
        if mounts.iter().any(|mount| mount.name == name) {
            let text = "must not already exist in volumeMounts";
            errors.push(Invalid::invalid(format!("{at}.name"), name, text));
        }
        if mounts.iter().any(|mount| mount.mount_path == path) {
            let text = "must not already exist as a path in volumeMounts";
            errors.push(Invalid::invalid(format!("{at}.devicePath"), path, text));
        }
    }
    errors
}

/// Only claims can be devices.
fn device_errors(at: &str, device: &VolumeDevice, volumes: &Volumes<'_>) -> Option<Invalid> {
    let (at, name) = (format!("{at}.name"), device.name.as_str());
    match volumes.get(name) {
        None => Some(check::not_found(at, name)),
        Some(volume) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
            let text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            Some(Invalid::invalid(at, name, text))
        }
        Some(_) => None,
    }
}
