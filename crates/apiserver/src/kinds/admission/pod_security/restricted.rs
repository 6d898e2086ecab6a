//! The checks of the level `restricted`, beside those of `baseline`.

use k8s_openapi::api::core::v1::Volume;

use super::profiles::{is_wrong_seccomp, seccomp_fields};
use super::subject::Subject;
use super::violation::{Values, Violation, containers, plural, quoted, setters};

/// Pods that say that they are for Windows need not say what only Linux knows, since this version.
const WINDOWS_SINCE: u64 = 25;
/// Pods with users of their own may run as root in there, since this version.
const OWN_USERS_SINCE: u64 = 35;

pub fn privilege_escalation(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    if minor >= WINDOWS_SINCE && pod.is_windows() {
        return None;
    }
    let names =
        pod.named(|one| one.context.is_none_or(|context| context.allow_privilege_escalation != Some(false)));
    (!names.is_empty()).then(|| {
        let detail =
            format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
        Violation::new("allowPrivilegeEscalation != false", detail)
    })
}

pub fn capabilities(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    if minor >= WINDOWS_SINCE && pod.is_windows() {
        return None;
    }
    let (mut keeping, mut adding, mut added) = (Vec::new(), Vec::new(), Values::new());
    for one in &pod.containers {
        let capabilities = one.context.and_then(|context| context.capabilities.as_ref());
        let drop = capabilities.and_then(|capabilities| capabilities.drop.as_deref()).unwrap_or_default();
        let add = capabilities.and_then(|capabilities| capabilities.add.as_deref()).unwrap_or_default();
        if !drop.iter().any(|name| name == "ALL") {
            keeping.push(one.name);
        }
        let wrong: Vec<&str> =
            add.iter().map(String::as_str).filter(|name| *name != "NET_BIND_SERVICE").collect();
        if !wrong.is_empty() {
            adding.push(one.name);
            added.extend(wrong);
        }
    }
    let kept = (!keeping.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    let added = (!adding.is_empty()).then(|| {
        let (who, what) = (containers(&adding), quoted(added));
        format!("{who} must not include {what} in securityContext.capabilities.add")
    });
    let details: Vec<String> = kept.into_iter().chain(added).collect();
    (!details.is_empty()).then(|| Violation::new("unrestricted capabilities", details.join("; ")))
}

pub fn volumes(pod: &Subject<'_>, _: u64) -> Option<Violation> {
    let (mut names, mut types) = (Vec::new(), Values::new());
    for volume in pod.spec.volumes.iter().flatten().filter(|volume| !is_allowed(volume)) {
        names.push(volume.name.as_str());
        types.insert(type_of(volume));
    }
    (!names.is_empty()).then(|| {
        let detail = format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", names.len()),
            quoted(names.iter().copied()),
            plural("uses", "use", names.len()),
            plural("restricted volume type", "restricted volume types", types.len()),
            quoted(types),
        );
        Violation::new("restricted volume types", detail)
    })
}

fn is_allowed(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.csi.is_some()
        || volume.downward_api.is_some()
        || volume.empty_dir.is_some()
        || volume.ephemeral.is_some()
        || volume.image.is_some()
        || volume.persistent_volume_claim.is_some()
        || volume.projected.is_some()
        || volume.secret.is_some()
}

/// The first source in upstream's order.
fn type_of(volume: &Volume) -> &'static str {
    let all = [
        ("hostPath", volume.host_path.is_some()),
        ("gcePersistentDisk", volume.gce_persistent_disk.is_some()),
        ("awsElasticBlockStore", volume.aws_elastic_block_store.is_some()),
        ("gitRepo", volume.git_repo.is_some()),
        ("nfs", volume.nfs.is_some()),
        ("iscsi", volume.iscsi.is_some()),
        ("glusterfs", volume.glusterfs.is_some()),
        ("rbd", volume.rbd.is_some()),
        ("flexVolume", volume.flex_volume.is_some()),
        ("cinder", volume.cinder.is_some()),
        ("cephfs", volume.cephfs.is_some()),
        ("flocker", volume.flocker.is_some()),
        ("fc", volume.fc.is_some()),
        ("azureFile", volume.azure_file.is_some()),
        ("vsphereVolume", volume.vsphere_volume.is_some()),
        ("quobyte", volume.quobyte.is_some()),
        ("azureDisk", volume.azure_disk.is_some()),
        ("photonPersistentDisk", volume.photon_persistent_disk.is_some()),
        ("portworxVolume", volume.portworx_volume.is_some()),
        ("scaleIO", volume.scale_io.is_some()),
        ("storageos", volume.storageos.is_some()),
    ];
    all.into_iter().find(|(_, is_set)| *is_set).map_or("unknown", |(name, _)| name)
}

pub fn run_as_non_root(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    if minor >= OWN_USERS_SINCE && pod.has_own_users() {
        return None;
    }
    const REASON: &str = "runAsNonRoot != true";
    let own = pod.context().and_then(|context| context.run_as_non_root);
    let explicit = pod.named_by_context(|context| context.run_as_non_root == Some(false));
    if let Some(who) = setters(own == Some(false), &explicit) {
        return Some(Violation::new(
            REASON,
            format!("{who} must not set securityContext.runAsNonRoot=false"),
        ));
    }
    let silent = pod.named(|one| one.context.is_none_or(|context| context.run_as_non_root.is_none()));
    (own.is_none() && !silent.is_empty()).then(|| {
        let who = containers(&silent);
        Violation::new(REASON, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
    })
}

pub fn run_as_user(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    if minor >= OWN_USERS_SINCE && pod.has_own_users() {
        return None;
    }
    let of_pod = pod.context().is_some_and(|context| context.run_as_user == Some(0));
    let who = setters(of_pod, &pod.named_by_context(|context| context.run_as_user == Some(0)))?;
    Some(Violation::new("runAsUser=0", format!("{who} must not set runAsUser=0")))
}

pub fn seccomp(pod: &Subject<'_>, minor: u64) -> Option<Violation> {
    if minor >= WINDOWS_SINCE && pod.is_windows() {
        return None;
    }
    if let Some(explicit) = seccomp_fields(pod) {
        return Some(explicit);
    }
    let own = pod.context().and_then(|context| context.seccomp_profile.as_ref());
    if own.is_some_and(|profile| !is_wrong_seccomp(profile)) {
        return None;
    }
    let silent = pod.named(|one| one.context.is_none_or(|context| context.seccomp_profile.is_none()));
    (!silent.is_empty()).then(|| {
        let who = containers(&silent);
        let detail = format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        );
        Violation::new("seccompProfile", detail)
    })
}
