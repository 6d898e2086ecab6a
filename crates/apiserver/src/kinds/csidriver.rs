//! CSIDriver: what a driver wants from the cluster.

use bowline_api::{CSIDriver, Meta};
use k8s_openapi::api::storage::v1::{CSIDriverSpec, TokenRequest};
use serde_json::Value;

use super::check;
use super::check::same::{immutable, same};
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const UPDATE_PERIOD_MIN: i64 = 10;

const COLUMNS: &[Column] = &[
    column::NAME,
    column::flag("AttachRequired", "Whether volumes are attached before they are mounted."),
    column::flag("PodInfoOnMount", "Whether the driver hears about the pod."),
    column::flag("StorageCapacity", "Whether the scheduler asks for free capacity."),
    column::text("TokenRequests", "Audiences of the tokens that the driver gets."),
    column::flag("RequiresRepublish", "Whether mounted volumes are published again and again."),
    column::text("Modes", "Lifecycles of volumes that the driver supports."),
    column::AGE,
];

pub struct CSIDriverRules;

impl Rules for CSIDriverRules {
    type Object = CSIDriver;
    const NAMES: Names = Names { plural: "csidrivers", singular: "csidriver", short: &[], categories: &[] };
    const NAMESPACED: bool = false;
    const UNCONDITIONAL_UPDATE: bool = false;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn default_fields(driver: &mut CSIDriver) {
        let spec = &mut driver.spec;
        spec.attach_required.get_or_insert(true);
        spec.pod_info_on_mount.get_or_insert(false);
        spec.storage_capacity.get_or_insert(false);
        spec.requires_republish.get_or_insert(false);
        spec.se_linux_mount.get_or_insert(false);
        spec.fs_group_policy.get_or_insert_with(|| "ReadWriteOnceWithFSType".into());
        let modes = spec.volume_lifecycle_modes.get_or_insert_default();
        if modes.is_empty() {
            modes.push("Persistent".into());
        }
    }

    fn prepare_create(driver: &mut CSIDriver, _now: jiff::Timestamp) {
        driver.spec.prevent_pod_scheduling_if_missing = None; // behind a feature gate that is off
    }

    fn prepare_update(new: &mut CSIDriver, old: &CSIDriver) {
        new.spec.prevent_pod_scheduling_if_missing = old.spec.prevent_pod_scheduling_if_missing;
        // Unlike elsewhere the count starts with the first change.
        if !same(&new.spec, &old.spec) {
            new.metadata.generation = Some(old.metadata.generation.unwrap_or(0) + 1);
        }
    }

    fn validate(driver: &CSIDriver) -> Vec<Invalid> {
        spec_errors(&driver.spec)
    }

    fn validate_update(new: &CSIDriver, old: &CSIDriver) -> Vec<Invalid> {
        let (new, old) = (&new.spec, &old.spec);
        let fixed = [
            // The misspelt name is upstream's.
            immutable("spec.attachedRequired", &new.attach_required, &old.attach_required),
            immutable("spec.volumeLifecycleModes", &new.volume_lifecycle_modes, &old.volume_lifecycle_modes),
        ];
        fixed.into_iter().flatten().collect()
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(driver: &CSIDriver, now: jiff::Timestamp) -> Vec<Value> {
        let spec = &driver.spec;
        let audiences = |requests: &Vec<TokenRequest>| -> Vec<String> {
            requests.iter().map(|request| request.audience.clone()).collect()
        };
        let tokens = spec.token_requests.as_ref().map(|requests| audiences(requests).join(","));
        let modes = spec.volume_lifecycle_modes.as_deref().unwrap_or_default().join(",");
        vec![
            driver.name().into(),
            spec.attach_required.unwrap_or(true).into(),
            spec.pod_info_on_mount.unwrap_or(false).into(),
            spec.storage_capacity.unwrap_or(false).into(),
            tokens.unwrap_or_else(|| "<unset>".into()).into(),
            spec.requires_republish.unwrap_or(false).into(),
            if modes.is_empty() { "<none>".into() } else { modes.into() },
            age::age(&driver.metadata, now).into(),
        ]
    }
}

fn spec_errors(spec: &CSIDriverSpec) -> Vec<Invalid> {
    let policy = spec.fs_group_policy.as_deref();
    let mut errors: Vec<Invalid> =
        policy.and_then(|p| check::one_of("spec.fsGroupPolicy", p, &GROUP_POLICIES)).into_iter().collect();
    let requests = spec.token_requests.as_deref().unwrap_or_default();
    errors.extend(token_errors(requests));
    for mode in spec.volume_lifecycle_modes.iter().flatten() {
        errors.extend(check::one_of("spec.volumeLifecycleModes", mode, &LIFECYCLE_MODES));
    }
    if let Some(period) = spec.node_allocatable_update_period_seconds.filter(|p| *p < UPDATE_PERIOD_MIN) {
        let text = "must be greater than or equal to 10 seconds";
        errors.push(Invalid::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text));
    }
    if let Some(flag) = spec.service_account_token_in_secrets.filter(|_| requests.is_empty()) {
        let text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(Invalid::invalid("spec.serviceAccountTokenInSecrets", flag, text));
    }
    errors
}

/// Each audience once. A repeated one is not looked at further.
fn token_errors(requests: &[TokenRequest]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let at = format!("spec.tokenRequests[{index}]");
        if requests[..index].iter().any(|earlier| earlier.audience == request.audience) {
            errors.push(Invalid::duplicate(format!("{at}.audience"), request.audience.as_str()));
            continue;
        }
        let Some(seconds) = request.expiration_seconds else { continue };
        errors.extend(check::token_lifetime(&format!("{at}.expirationSeconds"), seconds));
    }
    errors
}
