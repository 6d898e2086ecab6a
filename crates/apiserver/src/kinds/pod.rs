//! Pod: containers that run together on one node.
//!
//! `defaults`; what may be asked for: `spec` and whatever it calls; what may change: `update`, `status`, and through
//! doors of their own, `parts`; `qos`: the class that follows from resources; `cells`: what `kubectl get` shows.

mod annotations;
mod cells;
mod claims;
mod containers;
pub mod defaults;
mod environment;
mod files;
mod gated;
mod keys;
mod mounts;
mod network;
mod parts;
pub mod probes;
mod qos;
pub(super) mod resources;
pub(super) mod scheduling;
mod security;
pub mod spec;
mod status;
mod update;
mod volumes;

use bowline_api::{Meta, Pod, pod};
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::{Column, DeleteReply, Deletion, Names, Rules, column};
use crate::field::Invalid;
use crate::registry::{Part, Subresource};

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Ready", "How many of its containers are ready."),
    column::text("Status", "What the containers do, in one word."),
    column::text("Restarts", "How often containers were restarted, and when last."),
    column::AGE,
    column::wide(column::text("IP", "Address of the pod.")),
    column::wide(column::text("Node", "Where the pod runs.")),
    column::wide(column::text("Nominated Node", "Where room is being made for the pod.")),
    column::wide(column::text("Readiness Gates", "How many of its gates are open.")),
];

const CHANGES: &[&str] = &["get", "patch", "update"];
const SUBRESOURCES: &[Subresource] = &[
    Subresource { name: "binding", verbs: &["create"], group: "", version: "v1", kind: "Binding" },
    Subresource { name: "ephemeralcontainers", verbs: CHANGES, group: "", version: "v1", kind: "Pod" },
    Subresource { name: "eviction", verbs: &["create"], group: "policy", version: "v1", kind: "Eviction" },
    Subresource { name: "exec", verbs: &["create", "get"], group: "", version: "v1", kind: "PodExecOptions" },
    Subresource { name: "log", verbs: &["get"], group: "", version: "v1", kind: "Pod" },
    Subresource { name: "resize", verbs: CHANGES, group: "", version: "v1", kind: "Pod" },
];

pub struct PodRules;

impl Rules for PodRules {
    type Object = Pod;
    const NAMES: Names = Names { plural: "pods", singular: "pod", short: &["po"], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const SUBRESOURCES: &'static [Subresource] = SUBRESOURCES;
    const GENERATION: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;
    const FIELD_LABELS: &'static [&'static str] = &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ];

    fn default_fields(pod: &mut Pod) {
        defaults::fill(pod);
    }

    fn prepare_create(pod: &mut Pod, now: jiff::Timestamp) {
        let spec = pod.spec.get_or_insert_default();
        if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
            spec.termination_grace_period_seconds = Some(1);
        }
        let gated = gated::is_gated(spec);
        let class = qos::class(spec);
        keys::settle(pod);
        pod.status = Some(PodStatus {
            phase: Some("Pending".into()),
            qos_class: Some(class.into()),
            conditions: gated.then(|| vec![gated_condition(now)]),
            ..Default::default()
        });
    }

    fn prepare_update(new: &mut Pod, old: &Pod) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut Pod, old: &Pod, _now: jiff::Timestamp) {
        status::prepare(new, old);
    }

    fn validate(pod: &Pod) -> Vec<Invalid> {
        let spec = pod.spec.clone().unwrap_or_default();
        let mut errors =
            annotations::errors("metadata.annotations", pod.metadata.annotations.as_ref(), &spec);
        errors.extend(spec::errors("spec", spec::Owner::Pod(pod.name()), &spec));
        errors
    }

    fn validate_new(pod: &Pod) -> Vec<Invalid> {
        let spec = pod.spec.clone().unwrap_or_default();
        let mut errors = Self::validate(pod);
        let gated = gated::is_gated(&spec);
        if spec.ephemeral_containers.is_some_and(|containers| !containers.is_empty()) {
            errors.push(Invalid::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        }
        if gated && !spec.node_name.unwrap_or_default().is_empty() {
            let text = "cannot be set until all schedulingGates have been cleared";
            errors.push(Invalid::forbidden("spec.nodeName", text));
        }
        errors
    }

    fn validate_update(new: &Pod, old: &Pod) -> Vec<Invalid> {
        let mut errors = annotations::change_errors(new, old);
        let (after, before) = (new.spec.clone().unwrap_or_default(), old.spec.clone().unwrap_or_default());
        errors.extend(update::errors(&after, &before));
        errors
    }

    fn prepare_part(new: &mut Pod, old: &Pod, part: Part) {
        parts::prepare(new, old, part);
    }

    fn validate_part(new: &Pod, old: &Pod, part: Part) -> Vec<Invalid> {
        parts::errors(new.name(), new, old, part)
    }

    fn validate_status(new: &Pod, old: &Pod) -> Vec<Invalid> {
        let mut errors = annotations::change_errors(new, old);
        errors.extend(status::errors(new, old));
        errors
    }

    /// Somebody has to stop the containers first, unless nobody runs them.
    fn deletion(pod: &Pod, requested: Option<i64>) -> Deletion {
        let own = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
        let idle = pod::node_name(pod).is_empty() || matches!(pod::phase(pod), "Failed" | "Succeeded");
        match requested.or(own).unwrap_or(0) {
            _ if idle => Deletion::Now,
            0 => Deletion::Now,
            ..0 => Deletion::Graceful(1),
            seconds => Deletion::Graceful(seconds),
        }
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(pod: &Pod, now: jiff::Timestamp) -> Vec<Value> {
        cells::cells(pod, now)
    }

    fn field_labels(pod: &Pod) -> Vec<(&'static str, String)> {
        let spec = pod.spec.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let values = [
            spec.node_name.unwrap_or_default(),
            spec.restart_policy.unwrap_or_default(),
            spec.scheduler_name.unwrap_or_default(),
            spec.service_account_name.unwrap_or_default(),
            spec.host_network.unwrap_or(false).to_string(),
            status.phase.clone().unwrap_or_default(),
            cells::address(&status).to_owned(),
            status.nominated_node_name.unwrap_or_default(),
        ];
        Self::FIELD_LABELS.iter().copied().zip(values).collect()
    }
}

fn gated_condition(now: jiff::Timestamp) -> PodCondition {
    PodCondition {
        last_transition_time: Some(Time(now)),
        type_: "PodScheduled".into(),
        status: "False".into(),
        reason: Some("SchedulingGated".into()),
        message: Some("Scheduling is blocked due to non-empty scheduling gates".into()),
        ..Default::default()
    }
}
