//! What a volume in a Pod asks for, in the same words for all plugins. Pure.

use bowline_api::{Container, Pod, bytes_of, keys, pod};
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, KeyToPath, Volume, VolumeProjection,
};

use crate::kubelet::fs_group::fs_group;

/// 0644, which upstream's defaults write into every source; anybody may read.
const DEFAULT_MODE: i32 = 0o644;
/// What upstream's defaults write into a source without a time of its own.
const DEFAULT_TOKEN_SECONDS: i64 = 3600;
const MEMORY: &str = "Memory";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    EmptyDir,
    ConfigMap,
    Secret,
    DownwardApi,
    Projected,
}

impl Plugin {
    pub const ALL: [Self; 5] =
        [Self::EmptyDir, Self::ConfigMap, Self::Secret, Self::DownwardApi, Self::Projected];

    /// Its name as a directory.
    pub fn directory(self) -> &'static str {
        match self {
            Self::EmptyDir => keys::EMPTY_DIR_PLUGIN_ESCAPED,
            Self::ConfigMap => keys::CONFIG_MAP_PLUGIN_ESCAPED,
            Self::Secret => keys::SECRET_PLUGIN_ESCAPED,
            Self::DownwardApi => keys::DOWNWARD_API_PLUGIN_ESCAPED,
            Self::Projected => keys::PROJECTED_PLUGIN_ESCAPED,
        }
    }
}

/// Where a volume's files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Disk,
    /// At most so many bytes.
    Memory(Option<u64>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub plugin: Plugin,
    pub medium: Medium,
    /// What its files come from; `None`: containers write them themselves.
    pub sources: Option<Vec<Source>>,
    /// The pod's `fsGroup`.
    pub group: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    Token(TokenSource),
    Object { kind: ObjectKind, name: String, items: Vec<KeyToPath>, optional: bool, mode: i32 },
    Fields { items: Vec<DownwardAPIVolumeFile>, mode: i32 },
}

impl Eq for Source {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSource {
    pub audience: Option<String>,
    pub seconds: i64,
    pub path: String,
    pub mode: i32,
}

/// What of a volume cannot be done here; nobody can wait that away.
pub fn problem(volume: &Volume) -> Option<String> {
    let sources = volume.projected.as_ref()?.sources.as_deref().unwrap_or_default();
    let unknown = sources.iter().find(|source| projected(source, DEFAULT_MODE).is_none())?;
    let name = match unknown {
        source if source.cluster_trust_bundle.is_some() => "clusterTrustBundle",
        source if source.pod_certificate.is_some() => "podCertificate",
        _ => "a source without content",
    };
    Some(format!("volume {:?}: {name} is not supported here yet", volume.name))
}

/// Whether a volume is one of these plugins'.
pub fn makes(volume: &Volume) -> bool {
    plan(volume).is_some()
}

/// `None` for volumes that are somebody else's.
pub fn plan(volume: &Volume) -> Option<Plan> {
    let files = |plugin, medium, sources| Plan { plugin, medium, sources: Some(sources), group: None };
    if let Some(empty) = &volume.empty_dir {
        return Some(Plan { plugin: Plugin::EmptyDir, medium: medium(empty), sources: None, group: None });
    }
    if let Some(map) = &volume.config_map {
        let source = Source::Object {
            kind: ObjectKind::ConfigMap,
            name: map.name.clone(),
            items: map.items.clone().unwrap_or_default(),
            optional: map.optional.unwrap_or(false),
            mode: map.default_mode.unwrap_or(DEFAULT_MODE),
        };
        return Some(files(Plugin::ConfigMap, Medium::Disk, vec![source]));
    }
    if let Some(secret) = &volume.secret {
        let source = Source::Object {
            kind: ObjectKind::Secret,
            name: secret.secret_name.clone().unwrap_or_default(),
            items: secret.items.clone().unwrap_or_default(),
            optional: secret.optional.unwrap_or(false),
            mode: secret.default_mode.unwrap_or(DEFAULT_MODE),
        };
        return Some(files(Plugin::Secret, Medium::Memory(None), vec![source]));
    }
    if let Some(fields) = &volume.downward_api {
        let mode = fields.default_mode.unwrap_or(DEFAULT_MODE);
        let source = Source::Fields { items: fields.items.clone().unwrap_or_default(), mode };
        return Some(files(Plugin::DownwardApi, Medium::Memory(None), vec![source]));
    }
    let all = volume.projected.as_ref()?;
    let mode = all.default_mode.unwrap_or(DEFAULT_MODE);
    let sources = all.sources.iter().flatten().filter_map(|source| projected(source, mode)).collect();
    Some(files(Plugin::Projected, Medium::Memory(None), sources))
}

/// Volumes of a pod that this module makes and some container mounts; others are neither made nor waited for.
pub fn of_pod(pod: &Pod) -> impl Iterator<Item = (&str, Plan)> {
    let mounts = |container: &Container, name: &str| {
        container.volume_mounts.iter().flatten().any(|mount| mount.name == name)
    };
    let used = move |name: &str| pod::containers(pod).any(|container| mounts(container, name));
    let volumes = pod::volumes(pod).iter().filter(move |volume| used(&volume.name));
    let planned: Vec<_> = volumes.filter_map(|volume| Some((volume.name.as_str(), plan(volume)?))).collect();
    let group = fs_group(pod);
    let in_memory = planned.iter().filter_map(|(_, plan)| workload_memory(plan));
    let largest = memory_limit(pod).map(|memory| largest(memory, in_memory));
    planned.into_iter().map(move |(name, plan)| {
        let medium = match workload_memory(&plan) {
            Some(limit) => Medium::Memory(limit.into_iter().chain(largest).min()),
            None => plan.medium,
        };
        (name, Plan { group, medium, ..plan })
    })
}

/// The size that a volume in memory asks for, if the workload writes to it.
fn workload_memory(plan: &Plan) -> Option<Option<u64>> {
    match plan.medium {
        Medium::Memory(limit) if plan.sources.is_none() => Some(limit),
        _ => None,
    }
}

/// How large a volume may be so that all of them together are no larger than this. What some do not ask for goes to the
/// others. Upstream counts them together in the pod's control group; here there is one for each container only, and what
/// an ended one has written counts for none.
fn largest(memory: u64, asked: impl Iterator<Item = Option<u64>>) -> u64 {
    let mut asked: Vec<u64> = asked.map(|limit| limit.unwrap_or(memory)).collect();
    asked.sort_unstable();
    let mut left = memory;
    for (others, size) in (1..=asked.len() as u64).rev().zip(asked) {
        let share = left / others;
        if size > share {
            // Nothing at all would be no limit.
            return share.max(1);
        }
        left -= size;
    }
    memory
}

/// What all containers of a pod may take together, if all are limited.
fn memory_limit(pod: &Pod) -> Option<u64> {
    let limit = |container: &Container| {
        let limits = container.resources.as_ref()?.limits.as_ref()?;
        u64::try_from(bytes_of(limits.get("memory")?).ok()?).ok().filter(|bytes| *bytes > 0)
    };
    let spec = pod.spec.as_ref()?;
    let init = spec.init_containers.iter().flatten();
    let (beside, before): (Vec<_>, Vec<_>) =
        init.partition(|container| container.restart_policy.as_deref() == Some("Always"));
    let together: Option<u64> = spec.containers.iter().chain(beside).map(limit).sum();
    let largest: Option<Vec<u64>> = before.into_iter().map(limit).collect();
    Some(together?.max(largest?.into_iter().max().unwrap_or_default()))
}

fn medium(empty: &EmptyDirVolumeSource) -> Medium {
    match empty.medium.as_deref() {
        Some(MEMORY) => {
            let limit = empty.size_limit.as_ref().and_then(|limit| bytes_of(limit).ok());
            Medium::Memory(limit.and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0))
        }
        _ => Medium::Disk,
    }
}

fn projected(source: &VolumeProjection, mode: i32) -> Option<Source> {
    if let Some(token) = &source.service_account_token {
        return Some(Source::Token(TokenSource {
            audience: token.audience.clone().filter(|audience| !audience.is_empty()),
            seconds: token.expiration_seconds.unwrap_or(DEFAULT_TOKEN_SECONDS),
            path: token.path.clone(),
            mode,
        }));
    }
    if let Some(map) = &source.config_map {
        let (items, optional) = (map.items.clone().unwrap_or_default(), map.optional.unwrap_or(false));
        return Some(Source::Object {
            kind: ObjectKind::ConfigMap,
            name: map.name.clone(),
            items,
            optional,
            mode,
        });
    }
    if let Some(secret) = &source.secret {
        let (items, optional) = (secret.items.clone().unwrap_or_default(), secret.optional.unwrap_or(false));
        return Some(Source::Object {
            kind: ObjectKind::Secret,
            name: secret.name.clone(),
            items,
            optional,
            mode,
        });
    }
    let fields = source.downward_api.as_ref()?;
    Some(Source::Fields { items: fields.items.clone().unwrap_or_default(), mode })
}
