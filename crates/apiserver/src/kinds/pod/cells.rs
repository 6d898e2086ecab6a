//! What `kubectl get pods` shows. The status is one word made from phase, reasons and container states.

use bowline_api::{Meta, Pod};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::kinds::age;

/// Reason of pods on nodes that are not heard from.
const NODE_LOST: &str = "NodeLost";

/// What containers add up to.
#[derive(Default)]
struct Sum {
    reason: String,
    ready: usize,
    restarts: i32,
    last_restart: Option<Timestamp>,
}

pub fn cells(pod: &Pod, now: Timestamp) -> Vec<Value> {
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let sum = sum(&spec, &status);
    let sidecars = spec.init_containers.iter().flatten().filter(|one| restartable(one)).count();
    let total = spec.containers.len() + sidecars;
    let none = |text: &str| Value::from(if text.is_empty() { "<none>" } else { text });
    vec![
        pod.name().into(),
        format!("{}/{total}", sum.ready).into(),
        shown_reason(pod, &status, &sum.reason).into(),
        shown_restarts(&sum, now).into(),
        age::age(&pod.metadata, now).into(),
        none(address(&status)),
        none(spec.node_name.as_deref().unwrap_or_default()),
        none(status.nominated_node_name.as_deref().unwrap_or_default()),
        gates(&spec, &status).into(),
    ]
}

/// The pod's first address.
pub fn address(status: &PodStatus) -> &str {
    let listed = status.pod_ips.as_ref().and_then(|ips| ips.first()).map(|ip| ip.ip.as_str());
    listed.or(status.pod_ip.as_deref()).unwrap_or_default()
}

fn restartable(one: &Container) -> bool {
    one.restart_policy.as_deref() == Some("Always")
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a str> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().find(|c| c.type_ == kind).map(|c| c.status.as_str())
}

fn sum(spec: &PodSpec, status: &PodStatus) -> Sum {
    let phase = status.phase.clone().unwrap_or_default();
    let mut reason = status.reason.clone().filter(|reason| !reason.is_empty()).unwrap_or(phase);
    let gated = |c: &&k8s_openapi::api::core::v1::PodCondition| {
        c.type_ == "PodScheduled" && c.reason.as_deref() == Some("SchedulingGated")
    };
    if status.conditions.iter().flatten().any(|c| gated(&c)) {
        reason = "SchedulingGated".into();
    }
    let (initial, sidecars) = initializing(spec, status);
    match initial {
        Some(initial) if condition(status, "Initialized") != Some("True") => initial,
        initial => {
            let reason = initial.map_or(reason, |initial| initial.reason);
            running(status, Sum { reason, ..sidecars })
        }
    }
}

/// What is shown while init containers run, if they do, and what restartable ones add afterwards.
fn initializing(spec: &PodSpec, status: &PodStatus) -> (Option<Sum>, Sum) {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let (mut all, mut sidecars) = (Sum::default(), Sum::default());
    for (index, one) in status.init_container_statuses.iter().flatten().enumerate() {
        let sidecar = init.iter().any(|c| c.name == one.name && restartable(c));
        count_restarts(&mut all, one);
        if sidecar {
            count_restarts(&mut sidecars, one);
        }
        let state = one.state.clone().unwrap_or_default();
        if state.terminated.as_ref().is_some_and(|end| end.exit_code == 0) {
            continue;
        }
        if sidecar && one.started == Some(true) {
            sidecars.ready += usize::from(one.ready);
            continue;
        }
        let waiting = waiting_reason(&state).filter(|reason| *reason != "PodInitializing");
        all.reason = match (&state.terminated, waiting) {
            (Some(end), _) => format!("Init:{}", end_reason(end)),
            (None, Some(reason)) => format!("Init:{reason}"),
            (None, None) => format!("Init:{index}/{}", init.len()),
        };
        all.ready = sidecars.ready;
        return (Some(all), sidecars);
    }
    (None, sidecars)
}

fn running(status: &PodStatus, mut sum: Sum) -> Sum {
    let (mut any_running, mut failure) = (false, None);
    for one in status.container_statuses.iter().flatten().rev() {
        count_restarts(&mut sum, one);
        let state = one.state.clone().unwrap_or_default();
        if let Some(reason) = waiting_reason(&state) {
            sum.reason = reason.to_owned();
        } else if let Some(end) = &state.terminated {
            sum.reason = end_reason(end);
            if end.exit_code != 0 {
                failure = Some(sum.reason.clone());
            }
        } else if one.ready && state.running.is_some() {
            any_running = true;
            sum.ready += 1;
        }
    }
    // One container that ended well says nothing while others run or failed.
    if sum.reason == "Completed" {
        let ready = condition(status, "Ready") == Some("True");
        sum.reason = match (any_running, failure) {
            (true, _) if ready => "Running".into(),
            (_, Some(failure)) => failure,
            (true, None) => "NotReady".into(),
            (false, None) => sum.reason,
        };
    }
    sum
}

fn count_restarts(sum: &mut Sum, one: &ContainerStatus) {
    sum.restarts += one.restart_count;
    let end = one.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let at = end.and_then(|end| end.finished_at.as_ref()).map(|Time(at)| *at);
    sum.last_restart = sum.last_restart.max(at);
}

fn waiting_reason(state: &ContainerState) -> Option<&str> {
    state.waiting.as_ref()?.reason.as_deref().filter(|reason| !reason.is_empty())
}

fn end_reason(end: &ContainerStateTerminated) -> String {
    match (end.reason.as_deref().unwrap_or_default(), end.signal.unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", end.exit_code),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn shown_reason(pod: &Pod, status: &PodStatus, reason: &str) -> String {
    let over = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    if pod.deleting() && status.reason.as_deref() == Some(NODE_LOST) {
        "Unknown".into()
    } else if pod.deleting() && !over {
        "Terminating".into()
    } else {
        reason.to_owned()
    }
}

fn shown_restarts(sum: &Sum, now: Timestamp) -> String {
    match sum.last_restart {
        Some(at) if sum.restarts != 0 => format!("{} ({} ago)", sum.restarts, age::since(Some(at), now)),
        _ => sum.restarts.to_string(),
    }
}

fn gates(spec: &PodSpec, status: &PodStatus) -> String {
    let gates = spec.readiness_gates.as_deref().unwrap_or_default();
    let open = gates.iter().filter(|gate| condition(status, &gate.condition_type) == Some("True")).count();
    if gates.is_empty() { "<none>".into() } else { format!("{open}/{}", gates.len()) }
}
