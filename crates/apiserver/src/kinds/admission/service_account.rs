//! ServiceAccount, without tokens: every pod runs as somebody.

use bowline_api::{Meta, Pod, keys};

const DEFAULT: &str = "default";

pub fn set_service_account(pod: &mut Pod) {
    // The picture of a pod that the kubelet runs without any account.
    if pod.annotation(keys::MIRROR_POD).is_some() {
        return;
    }
    let spec = pod.spec.get_or_insert_default();
    if spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        spec.service_account_name = Some(DEFAULT.into());
    }
    // Older clients read the account under its first name.
    spec.service_account.clone_from(&spec.service_account_name);
}
