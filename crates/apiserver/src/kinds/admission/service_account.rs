//! ServiceAccount: every pod runs as somebody, and can prove it.

use bowline_api::{Meta, Pod, ServiceAccount, keys};
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath, ObjectFieldSelector,
    ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

const DEFAULT: &str = "default";
const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour and a little: the odd number marks tokens that a pod did not ask for itself.
const TOKEN_SECONDS: i64 = 3607;
/// 0644.
const FILE_MODE: i32 = 420;
/// What names are made of: no vowels, so no words, and nothing that looks like something else.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;

/// A pod that a kubelet runs by itself and only shows here.
pub fn is_mirror(pod: &Pod) -> bool {
    pod.annotation(keys::MIRROR_POD).is_some()
}

pub fn set_service_account(pod: &mut Pod) {
    if is_mirror(pod) {
        return;
    }
    let spec = pod.spec.get_or_insert_default();
    if spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        spec.service_account_name = Some(DEFAULT.into());
    }
    // Older clients read the account under its first name.
    spec.service_account.clone_from(&spec.service_account_name);
}

/// Gives a pod what its account stands for: a token, unless either says no, and secrets to pull images with.
///
/// `name` is the pod's, made up or not; what is called after it need only differ within the pod.
pub fn equip(pod: &mut Pod, account: &ServiceAccount, name: &str) {
    let spec = pod.spec.get_or_insert_default();
    let wanted = spec.automount_service_account_token.or(account.automount_service_account_token);
    if spec.image_pull_secrets.as_ref().is_none_or(Vec::is_empty) {
        spec.image_pull_secrets = account.image_pull_secrets.clone();
    }
    if wanted != Some(false) {
        mount_token(pod, name);
    }
}

fn mount_token(pod: &mut Pod, name: &str) {
    let spec = pod.spec.get_or_insert_default();
    let volumes = spec.volumes.get_or_insert_default();
    let own = volumes
        .iter()
        .find(|volume| volume.name.starts_with(VOLUME_PREFIX))
        .map(|volume| volume.name.clone());
    let volume = own.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}{}", suffix(name)));
    let mut used = false;
    for one in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let mounts = one.volume_mounts.get_or_insert_default();
        // Whoever mounts something there has reasons.
        if mounts.iter().all(|mount| mount.mount_path != MOUNT_PATH) {
            let (name, mount_path) = (volume.clone(), MOUNT_PATH.into());
            mounts.push(VolumeMount { name, mount_path, read_only: Some(true), ..Default::default() });
            used = true;
        }
    }
    if own.is_none() && used {
        volumes.push(Volume { name: volume, projected: Some(token_files()), ..Default::default() });
    }
}

/// Derived and not drawn, so that a repeated request makes the same pod.
fn suffix(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let letters = LETTERS.len() as u64;
    let letter = |position: u32| LETTERS[(hash / letters.pow(position) % letters) as usize] as char;
    (0..SUFFIX as u32).map(letter).collect()
}

fn token_files() -> ProjectedVolumeSource {
    let token = ServiceAccountTokenProjection {
        audience: None,
        expiration_seconds: Some(TOKEN_SECONDS),
        path: "token".into(),
    };
    let authority = ConfigMapProjection {
        name: keys::ROOT_CA_MAP.into(),
        items: Some(vec![KeyToPath { key: "ca.crt".into(), path: "ca.crt".into(), mode: None }]),
        optional: None,
    };
    let namespace = DownwardAPIVolumeFile {
        path: "namespace".into(),
        field_ref: Some(ObjectFieldSelector {
            api_version: Some("v1".into()),
            field_path: "metadata.namespace".into(),
        }),
        ..Default::default()
    };
    let namespace = DownwardAPIProjection { items: Some(vec![namespace]) };
    ProjectedVolumeSource {
        default_mode: Some(FILE_MODE),
        sources: Some(vec![
            VolumeProjection { service_account_token: Some(token), ..Default::default() },
            VolumeProjection { config_map: Some(authority), ..Default::default() },
            VolumeProjection { downward_api: Some(namespace), ..Default::default() },
        ]),
    }
}
