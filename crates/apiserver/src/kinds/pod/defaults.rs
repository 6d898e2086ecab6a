//! What a pod gets when it says nothing.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Probe, ResourceRequirements, Volume};

use crate::kinds::persistentvolumeclaim;

const GRACE_SECONDS: i64 = 30;
/// 0644.
const FILE_MODE: i32 = 420;
const TOKEN_SECONDS: i64 = 3600;

pub fn fill(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    text(&mut spec.dns_policy, "ClusterFirst");
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(GRACE_SECONDS);
    spec.security_context.get_or_insert_default();
    spec.enable_service_links.get_or_insert(true);
    mirror_account(spec);
    let host_network = spec.host_network == Some(true);
    spec.volumes.iter_mut().flatten().for_each(volume);
    for one in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        container(one);
        requests(one.resources.get_or_insert_default());
        if host_network {
            ports_on_host(one);
        }
    }
    for one in spec.ephemeral_containers.iter_mut().flatten() {
        text(&mut one.image_pull_policy, pull_policy(one.image.as_deref()));
        text(&mut one.termination_message_path, "/dev/termination-log");
        text(&mut one.termination_message_policy, "File");
        one.resources.get_or_insert_default();
    }
}

fn text(field: &mut Option<String>, default: &str) {
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
    let fields = one.env.iter_mut().flatten().filter_map(|env| env.value_from.as_mut()?.field_ref.as_mut());
    fields.for_each(|field| text(&mut field.api_version, "v1"));
    let probes = [&mut one.liveness_probe, &mut one.readiness_probe, &mut one.startup_probe];
    probes.into_iter().flatten().for_each(probe);
    let hooks = one.lifecycle.iter_mut().flat_map(|l| [&mut l.post_start, &mut l.pre_stop]).flatten();
    for get in hooks.filter_map(|hook| hook.http_get.as_mut()) {
        text(&mut get.path, "/");
        text(&mut get.scheme, "HTTP");
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
}

/// A limit without a request is also the request.
fn requests(resources: &mut ResourceRequirements) {
    for (name, limit) in resources.limits.iter().flatten() {
        resources.requests.get_or_insert_default().entry(name.clone()).or_insert_with(|| limit.clone());
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
    let parts = volume.projected.iter_mut().flat_map(|source| source.sources.iter_mut().flatten());
    for token in parts.filter_map(|part| part.service_account_token.as_mut()) {
        token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
    }
    if let Some(path) = &mut volume.host_path {
        path.type_.get_or_insert_default();
    }
    if let Some(image) = &mut volume.image {
        text(&mut image.pull_policy, pull_policy(image.reference.as_deref()));
    }
    let template = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut());
    if let Some(template) = template {
        persistentvolumeclaim::spec::default_fields(&mut template.spec);
    }
}
