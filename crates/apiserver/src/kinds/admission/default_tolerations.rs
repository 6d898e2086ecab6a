//! DefaultTolerationSeconds: pods outlast a node that is lost for a while.

use bowline_api::{Pod, keys};
use k8s_openapi::api::core::v1::Toleration;

const SECONDS: i64 = 300;

/// Adds what the pod does not say itself.
pub fn tolerate_lost_nodes(pod: &mut Pod) {
    let tolerations = &mut pod.spec.get_or_insert_default().tolerations;
    for taint in [keys::TAINT_NOT_READY, keys::TAINT_UNREACHABLE] {
        if !tolerations.iter().flatten().any(|toleration| covers(toleration, taint)) {
            tolerations.get_or_insert_default().push(Toleration {
                key: Some(taint.into()),
                operator: Some("Exists".into()),
                effect: Some("NoExecute".into()),
                toleration_seconds: Some(SECONDS),
                value: None,
            });
        }
    }
}

/// By key and effect, whatever the value and however long.
fn covers(toleration: &Toleration, taint: &str) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    (key.is_empty() || key == taint) && matches!(effect, "" | "NoExecute")
}
