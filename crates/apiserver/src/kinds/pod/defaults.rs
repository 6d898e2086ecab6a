//! What a pod gets when it says nothing. A template gets less: the rest waits for its pods.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Probe, ResourceRequirements, Volume};

use super::{containers, resources};
use crate::kinds::persistentvolume::intree_defaults;
use crate::kinds::persistentvolumeclaim;

const GRACE_SECONDS: i64 = 30;
/// 0644.
const FILE_MODE: i32 = 420;
const TOKEN_SECONDS: i64 = 3600;

/// A pod that is about to be one.
pub fn fill(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    fill_spec(spec);
    spec.enable_service_links.get_or_insert(true);
    let host_network = spec.host_network == Some(true);
    for one in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        requests(one.resources.get_or_insert_default());
        if host_network {
            ports_on_host(one);
        }
    }
    pod_requests(spec);
}

/// Any spec, of a pod or of a template.
pub fn fill_spec(spec: &mut PodSpec) {
    text(&mut spec.dns_policy, "ClusterFirst");
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(GRACE_SECONDS);
    spec.security_context.get_or_insert_default();
    mirror_account(spec);
    spec.volumes.iter_mut().flatten().for_each(volume);
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()).for_each(container);
    for one in spec.ephemeral_containers.iter_mut().flatten() {
        // They are containers but for their type, so they go through one and back.
        let mut plain = containers::plain(one);
        container(&mut plain);
        one.image_pull_policy = plain.image_pull_policy;
        one.termination_message_path = plain.termination_message_path;
        one.termination_message_policy = plain.termination_message_policy;
        one.ports = plain.ports;
        one.env = plain.env;
        one.resources.get_or_insert_default();
    }
}

/// Fills a text that is absent or empty.
pub fn text(field: &mut Option<String>, default: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(default.into());
    }
}

/// The account has an old name and a new one; the new one wins.
fn mirror_account(spec: &mut PodSpec) {
    let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let account = named(&spec.service_account_name).or_else(|| named(&spec.service_account));
    if account.is_some() {
        spec.service_account_name.clone_from(&account);
        spec.service_account = account;
    }
}

fn container(one: &mut Container) {
    text(&mut one.image_pull_policy, pull_policy(one.image.as_deref()));
    text(&mut one.termination_message_path, "/dev/termination-log");
    text(&mut one.termination_message_policy, "File");
    for port in one.ports.iter_mut().flatten() {
        text(&mut port.protocol, "TCP");
    }
    for source in one.env.iter_mut().flatten().filter_map(|variable| variable.value_from.as_mut()) {
        if let Some(field) = &mut source.field_ref {
            text(&mut field.api_version, "v1");
        }
        if let Some(file) = &mut source.file_key_ref {
            file.optional.get_or_insert(false);
        }
    }
    let probes = [&mut one.liveness_probe, &mut one.readiness_probe, &mut one.startup_probe];
    probes.into_iter().flatten().for_each(probe);
    forget_signal(one);
    let hooks = one.lifecycle.iter_mut().flat_map(|l| [&mut l.post_start, &mut l.pre_stop]).flatten();
    for get in hooks.filter_map(|hook| hook.http_get.as_mut()) {
        text(&mut get.path, "/");
        text(&mut get.scheme, "HTTP");
    }
}

/// Signals to stop with are behind a gate that upstream keeps closed.
fn forget_signal(one: &mut Container) {
    let Some(lifecycle) = &mut one.lifecycle else { return };
    if lifecycle.stop_signal.take().is_some() && *lifecycle == Default::default() {
        one.lifecycle = None;
    }
}

/// Images that can change under their tag are pulled each time.
fn pull_policy(image: Option<&str>) -> &'static str {
    let image = image.unwrap_or_default();
    if image.contains('@') {
        return "IfNotPresent";
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

fn probe(probe: &mut Probe) {
    let number = |field: &mut Option<i32>, default: i32| {
        if field.unwrap_or(0) == 0 {
            *field = Some(default);
        }
    };
    number(&mut probe.timeout_seconds, 1);
    number(&mut probe.period_seconds, 10);
    number(&mut probe.success_threshold, 1);
    number(&mut probe.failure_threshold, 3);
    if let Some(get) = &mut probe.http_get {
        text(&mut get.path, "/");
        text(&mut get.scheme, "HTTP");
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

/// A limit without a request is also the request.
fn requests(resources: &mut ResourceRequirements) {
    for (name, limit) in resources.limits.iter().flatten() {
        resources.requests.get_or_insert_default().entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// A pod that limits itself as a whole asks for what its containers ask for, or else for its limits.
fn pod_requests(spec: &mut PodSpec) {
    let total = resources::total_requests(spec);
    let Some(resources) = &mut spec.resources else { return };
    let Some(limits) = resources.limits.clone().filter(|limits| !limits.is_empty()) else { return };
    let requests = resources.requests.get_or_insert_default();
    let known = |name: &String| matches!(name.as_str(), "cpu" | "memory");
    let limited = |name: &String| known(name) || name.starts_with("hugepages-");
    for (name, amount) in total.into_iter().filter(|(name, _)| known(name)) {
        requests.entry(name).or_insert(amount);
    }
    for (name, amount) in limits.into_iter().filter(|(name, _)| limited(name)) {
        requests.entry(name).or_insert(amount);
    }
}

fn ports_on_host(one: &mut Container) {
    for port in one.ports.iter_mut().flatten() {
        if port.host_port.unwrap_or(0) == 0 {
            port.host_port = Some(port.container_port);
        }
    }
}

fn volume(volume: &mut Volume) {
    if (Volume { name: volume.name.clone(), ..Default::default() }) == *volume {
        volume.empty_dir = Some(Default::default());
    }
    let modes = [
        volume.secret.as_mut().map(|source| &mut source.default_mode),
        volume.config_map.as_mut().map(|source| &mut source.default_mode),
        volume.downward_api.as_mut().map(|source| &mut source.default_mode),
        volume.projected.as_mut().map(|source| &mut source.default_mode),
    ];
    for mode in modes.into_iter().flatten() {
        mode.get_or_insert(FILE_MODE);
    }
    fields(volume);
    if let Some(path) = &mut volume.host_path {
        path.type_.get_or_insert_default();
    }
    if let Some(iscsi) = &mut volume.iscsi {
        intree_defaults::iscsi(&mut iscsi.iscsi_interface);
    }
    if let Some(rbd) = &mut volume.rbd {
        intree_defaults::rbd(&mut rbd.pool, &mut rbd.user, &mut rbd.keyring);
    }
    if let Some(scale_io) = &mut volume.scale_io {
        intree_defaults::scale_io(&mut scale_io.storage_mode, &mut scale_io.fs_type);
    }
    if let Some(disk) = &mut volume.azure_disk {
        intree_defaults::azure_disk(disk);
    }
    if let Some(image) = &mut volume.image {
        text(&mut image.pull_policy, pull_policy(image.reference.as_deref()));
    }
    let template = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut());
    if let Some(template) = template {
        persistentvolumeclaim::spec::default_fields(&mut template.spec);
    }
}

/// Files that show fields of the pod, and tokens.
fn fields(volume: &mut Volume) {
    let own = volume.downward_api.iter_mut().flat_map(|source| source.items.iter_mut().flatten());
    for field in own.filter_map(|file| file.field_ref.as_mut()) {
        text(&mut field.api_version, "v1");
    }
    for part in volume.projected.iter_mut().flat_map(|source| source.sources.iter_mut().flatten()) {
        if let Some(token) = &mut part.service_account_token {
            token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
        }
        let files = part.downward_api.iter_mut().flat_map(|downward| downward.items.iter_mut().flatten());
        for field in files.filter_map(|file| file.field_ref.as_mut()) {
            text(&mut field.api_version, "v1");
        }
    }
}
