//! The status of a pod as it should be. Pure.

use bowline_api::{Container, Meta, Pod, pod};
use bowline_host::containers::START_ERROR;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::decide::{Run, backing_off, blocked, run_of};
use super::model::{Attempt, Observed, PodVolumes, State};
use super::probes;
use super::spec::{self, POD_IP, Problem};

/// Names the runtime in front of its own id of a container.
pub const CONTAINER_ID_PREFIX: &str = "bowline://";

pub const ATTACH_LIMIT_EXCEEDED: &str = "VolumeAttachmentLimitExceeded";
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
pub const DEADLINE_TEXT: &str = "Pod was active on the node longer than the specified deadline";
/// Reasons of containers that wait because they cannot run as they are.
const REFUSALS: [&str; 3] = ["CreateContainerConfigError", "ErrImagePull", "InvalidImageName"];

/// A patch of what differs from the API; `None` when nothing does.
pub fn changed(seen: &Observed, pod: &Pod) -> Option<Value> {
    let none = PodStatus::default();
    let have = pod.status.as_ref().unwrap_or(&none);
    let init: Vec<ContainerStatus> =
        spec::init_containers(pod).iter().map(|c| container_status(seen, pod, c, true)).collect();
    let app: Vec<ContainerStatus> =
        spec::app_containers(pod).iter().map(|c| container_status(seen, pod, c, false)).collect();
    let ephemeral = ephemeral(pod);
    let phase = phase(seen, pod);
    let conditions = conditions(seen, pod, &phase, &init, &app);
    let start_time = have.start_time.clone().unwrap_or_else(|| time(seen.wall));
    let known = have.conditions.as_deref().unwrap_or_default();
    let same = have.phase.as_deref() == Some(&phase)
        && have.init_container_statuses.as_deref().unwrap_or_default() == init
        && have.container_statuses.as_deref().unwrap_or_default() == app
        && have.ephemeral_container_statuses.as_deref().unwrap_or_default() == ephemeral
        && have.host_ip.as_deref() == Some(POD_IP)
        && have.pod_ip.as_deref() == Some(POD_IP)
        && have.start_time.as_ref() == Some(&start_time)
        && conditions.iter().all(|want| known.iter().any(|have| alike(want, have)));
    if same {
        return None;
    }
    let mut status = json!({
        "phase": phase,
        "conditions": conditions.iter().map(whole).collect::<Vec<_>>(),
        "containerStatuses": app,
        "hostIP": POD_IP,
        "hostIPs": [{"ip": POD_IP}],
        "podIP": POD_IP,
        "podIPs": [{"ip": POD_IP}],
        "startTime": start_time,
        "observedGeneration": pod.meta().generation,
    });
    if !init.is_empty() {
        status["initContainerStatuses"] = json!(init);
    }
    if !ephemeral.is_empty() {
        status["ephemeralContainerStatuses"] = json!(ephemeral);
    }
    // The UID guards against another pod of the same name.
    Some(json!({"metadata": {"uid": pod.uid()}, "status": status}))
}

/// In upstream's words. Its containers have ended.
pub fn deadline_exceeded(seen: &Observed, pod: &Pod) -> Value {
    failed(seen, pod, DEADLINE_EXCEEDED, DEADLINE_TEXT)
}

/// The node cannot attach the pod's volumes: another one may.
pub fn attach_limit_exceeded(seen: &Observed, pod: &Pod, why: &str) -> Value {
    failed(seen, pod, ATTACH_LIMIT_EXCEEDED, &format!("Pod was rejected: {why}"))
}

fn failed(seen: &Observed, pod: &Pod, reason: &str, message: &str) -> Value {
    let mut patch =
        changed(seen, pod).unwrap_or_else(|| json!({"metadata": {"uid": pod.uid()}, "status": {}}));
    let status = |containers: &[Container], init: bool| -> Vec<ContainerStatus> {
        containers.iter().map(|c| container_status(seen, pod, c, init)).collect()
    };
    let (init, app) = (status(spec::init_containers(pod), true), status(spec::app_containers(pod), false));
    let conditions = conditions(seen, pod, "Failed", &init, &app);
    patch["status"]["conditions"] = conditions.iter().map(whole).collect();
    patch["status"]["phase"] = json!("Failed");
    patch["status"]["reason"] = json!(reason);
    patch["status"]["message"] = json!(message);
    patch
}

/// Containers that were added to look into a running pod never start.
fn ephemeral(pod: &Pod) -> Vec<ContainerStatus> {
    let all = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.as_deref()).unwrap_or_default();
    let refused = |name: &String, image: &Option<String>| ContainerStatus {
        name: name.clone(),
        image: image.clone().unwrap_or_default(),
        started: Some(false),
        state: Some(waiting(
            "CreateContainerConfigError",
            Some("ephemeral containers are not supported here; use `kubectl exec`".into()),
        )),
        ..Default::default()
    };
    all.iter().map(|one| refused(&one.name, &one.image)).collect()
}

/// Containers that a status says cannot run, with the reason, unless the API shows that already.
pub fn newly_refused<'a>(pod: &Pod, patch: &'a Value) -> Vec<(&'a str, &'a str, &'a str)> {
    let known = json!(pod.status);
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let mut refused = Vec::new();
    for list in lists {
        for status in patch["status"][list].as_array().into_iter().flatten() {
            let waiting = &status["state"]["waiting"];
            let (Some(name), Some(reason)) = (status["name"].as_str(), waiting["reason"].as_str()) else {
                continue;
            };
            let mut shown = known[list].as_array().into_iter().flatten().filter(|one| one["name"] == name);
            let same = shown.any(|one| one["state"]["waiting"] == *waiting);
            if REFUSALS.contains(&reason) && !same {
                refused.push((name, reason, waiting["message"].as_str().unwrap_or_default()));
            }
        }
    }
    refused
}

/// Conditions are merged by type: what is absent must be said to be, or an old reason stays.
fn whole(condition: &PodCondition) -> Value {
    let mut value = json!(condition);
    for field in ["reason", "message"] {
        if value.get(field).is_none() {
            value[field] = Value::Null;
        }
    }
    value
}

/// The API keeps whole seconds.
fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn alike(a: &PodCondition, b: &PodCondition) -> bool {
    (&a.type_, &a.status, &a.reason, &a.message) == (&b.type_, &b.status, &b.reason, &b.message)
}

/// What the API shows of a container.
pub(super) fn old<'a>(pod: &'a Pod, name: &str, init: bool) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let list = if init { &status.init_container_statuses } else { &status.container_statuses };
    list.iter().flatten().find(|s| s.name == name)
}

pub(super) fn container_status(
    seen: &Observed,
    pod: &Pod,
    container: &Container,
    init: bool,
) -> ContainerStatus {
    let name = &container.name;
    let old = old(pod, name, init);
    let Some(latest) = seen.latest(name) else { return unstarted(seen, pod, container, old, init) };
    let id = container_id(seen, name, latest.number);
    let previous = previous(seen, name, &id, old);
    let (state, last_state) = match &latest.state {
        State::Running { started_at, .. } => {
            let running = ContainerStateRunning { started_at: Some(time(*started_at)) };
            (ContainerState { running: Some(running), ..Default::default() }, previous)
        }
        State::Exited { .. } => {
            let ended = ContainerState { terminated: terminated(seen, name, latest), ..Default::default() };
            match (backing_off(seen, pod, container, init), stuck(seen, pod, container, init)) {
                (Some(message), _) => (waiting("CrashLoopBackOff", Some(message)), Some(ended)),
                (None, Some(problem)) => (waiting(problem.reason, Some(problem.message)), Some(ended)),
                (None, None) => (ended, previous),
            }
        }
    };
    let started = !init && probes::started(seen, pod, container, latest);
    let succeeded = matches!(run_of(seen, pod, name, init), Run::Ended { code: 0, .. });
    ContainerStatus {
        name: name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: container.image.clone().unwrap_or_default(),
        container_id: Some(id),
        ready: if init { succeeded } else { probes::ready(seen, pod, container, latest) },
        started: Some(started),
        restart_count: i32::try_from(latest.number).unwrap_or(i32::MAX),
        state: Some(state),
        last_state,
        ..Default::default()
    }
}

/// A container that would start again if it could.
fn stuck(seen: &Observed, pod: &Pod, container: &Container, init: bool) -> Option<Problem> {
    if pod.deleting() || seen.evicting { None } else { blocked(seen, pod, container, init) }
}

/// A container without a record: not started yet, or one whose record is lost. What the API says of its end stays true.
fn unstarted(
    seen: &Observed,
    pod: &Pod,
    container: &Container,
    old: Option<&ContainerStatus>,
    init: bool,
) -> ContainerStatus {
    let ended = |s: &&ContainerStatus| s.state.as_ref().is_some_and(|s| s.terminated.is_some());
    if let Some(old) = old.filter(ended) {
        return old.clone();
    }
    let initialized = spec::init_containers(pod)
        .iter()
        .all(|c| matches!(run_of(seen, pod, &c.name, true), Run::Ended { code: 0, .. }));
    let (reason, message) = match blocked(seen, pod, container, init) {
        Some(problem) => (problem.reason, Some(problem.message)),
        None if !init && !initialized => ("PodInitializing", None),
        None => ("ContainerCreating", None),
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        ready: false,
        started: Some(false),
        restart_count: old.map_or(0, |s| s.restart_count),
        container_id: old.and_then(|s| s.container_id.clone()),
        state: Some(waiting(reason, message)),
        last_state: old.and_then(|s| s.last_state.clone()),
        ..Default::default()
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.into()), message };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

pub(super) fn container_id(seen: &Observed, name: &str, number: u32) -> String {
    format!("{CONTAINER_ID_PREFIX}{}", seen.id(name, number))
}

/// How the run before this one ended: from its record while there is one, then from the API.
fn previous(seen: &Observed, name: &str, id: &str, old: Option<&ContainerStatus>) -> Option<ContainerState> {
    let attempts = seen.attempts.get(name).map(Vec::as_slice).unwrap_or_default();
    if let [.., before, _] = attempts {
        return Some(ContainerState { terminated: terminated(seen, name, before), ..Default::default() });
    }
    let old = old?;
    let other_run = old.container_id.as_deref() != Some(id);
    let ended = old.state.clone().filter(|s| other_run && s.terminated.is_some());
    ended.or_else(|| old.last_state.clone())
}

fn terminated(seen: &Observed, name: &str, attempt: &Attempt) -> Option<ContainerStateTerminated> {
    let State::Exited { started_at, exit } = &attempt.state else { return None };
    let reason = match (&exit.error, exit.code) {
        _ if exit.oom_killed => "OOMKilled",
        (Some(_), START_ERROR) => "StartError",
        // It ran, and its end was not seen.
        (Some(_), _) => "ContainerStatusUnknown",
        (None, 0) => "Completed",
        (None, _) => "Error",
    };
    Some(ContainerStateTerminated {
        exit_code: exit.code,
        signal: exit.signal,
        reason: Some(reason.into()),
        message: exit.error.clone().or_else(|| exit.message.clone()).or_else(|| attempt.last_lines.clone()),
        started_at: Some(time(*started_at)),
        finished_at: Some(time(exit.finished_at)),
        container_id: Some(container_id(seen, name, attempt.number)),
    })
}

/// Upstream's rules; a pod that is being deleted will not start its containers again.
fn phase(seen: &Observed, pod: &Pod) -> String {
    let policy = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()).unwrap_or("Always");
    for container in spec::init_containers(pod) {
        match run_of(seen, pod, &container.name, true) {
            Run::Ended { code: 0, .. } => {}
            Run::Ended { .. } if policy == "Never" || pod.deleting() => return "Failed".into(),
            Run::Ended { .. } | Run::NotStarted | Run::Running => return "Pending".into(),
        }
    }
    let runs: Vec<Run> =
        spec::app_containers(pod).iter().map(|c| run_of(seen, pod, &c.name, false)).collect();
    let failed = runs.iter().any(|r| matches!(r, Run::Ended { code, .. } if *code != 0));
    let over = pod.deleting() || policy == "Never";
    let phase = if runs.contains(&Run::NotStarted) {
        // A pod that never got all its containers keeps what it was.
        match pod::phase(pod) {
            "" => "Pending",
            phase if pod.deleting() => phase,
            "Running" => "Running",
            _ => "Pending",
        }
    } else if runs.contains(&Run::Running) {
        "Running"
    } else {
        match (policy, failed) {
            ("Always", _) if !over => "Running",
            (_, false) => "Succeeded",
            (_, true) if over => "Failed",
            (_, true) => "Running",
        }
    };
    phase.into()
}

fn conditions(
    seen: &Observed,
    pod: &Pod,
    phase: &str,
    init: &[ContainerStatus],
    app: &[ContainerStatus],
) -> Vec<PodCondition> {
    let names = |unready: Vec<&str>| format!("[{}]", unready.join(" "));
    let unfinished: Vec<&str> = init.iter().filter(|s| !s.ready).map(|s| s.name.as_str()).collect();
    let unready: Vec<&str> = app.iter().filter(|s| !s.ready).map(|s| s.name.as_str()).collect();
    let yes = |type_| (type_, "True", None, None);
    let no = |type_, reason: &'static str, message: Option<String>| (type_, "False", Some(reason), message);
    let initialized = match (phase, unfinished.is_empty()) {
        ("Succeeded", _) => ("Initialized", "True", Some("PodCompleted"), None),
        (_, true) => yes("Initialized"),
        (_, false) => {
            let message = format!("containers with incomplete status: {}", names(unfinished));
            no("Initialized", "ContainersNotInitialized", Some(message))
        }
    };
    let ready = |type_: &'static str| match phase {
        "Succeeded" => no(type_, "PodCompleted", None),
        "Failed" => no(type_, "PodFailed", None),
        _ if unready.is_empty() => yes(type_),
        _ => {
            let message = format!("containers with unready status: {}", names(unready.clone()));
            no(type_, "ContainersNotReady", Some(message))
        }
    };
    let over = matches!(phase, "Succeeded" | "Failed");
    let pod_ready = match ready("Ready") {
        (type_, "True", ..) => match gates(pod) {
            None => yes(type_),
            Some(message) => no(type_, "ReadinessGatesNotReady", Some(message)),
        },
        unready => unready,
    };
    let prepared = match &seen.volumes {
        PodVolumes::Ready(_) => !over,
        PodVolumes::Waiting { .. } => app.iter().chain(init).any(|s| s.container_id.is_some()) && !over,
    };
    let type_ = "PodReadyToStartContainers";
    let prepared = if prepared { yes(type_) } else { (type_, "False", None, None) };
    let all = [prepared, initialized, pod_ready, ready("ContainersReady"), yes("PodScheduled")];
    all.into_iter().map(|c| condition(seen, pod, c)).collect()
}

/// What the readiness gates of a pod lack, in upstream's words.
fn gates(pod: &Pod) -> Option<String> {
    let gates = pod.spec.as_ref()?.readiness_gates.as_deref().unwrap_or_default();
    let missing: Vec<String> = gates
        .iter()
        .filter_map(|gate| {
            let name = &gate.condition_type;
            match pod::condition(pod, name).map(|condition| condition.status.as_str()) {
                None => {
                    Some(format!("corresponding condition of pod readiness gate {name:?} does not exist."))
                }
                Some("True") => None,
                Some(status) => {
                    Some(format!("the status of pod readiness gate {name:?} is not \"True\", but {status}"))
                }
            }
        })
        .collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// A condition that is as it was keeps its transition time.
fn condition(
    seen: &Observed,
    pod: &Pod,
    (type_, status, reason, message): (&str, &str, Option<&str>, Option<String>),
) -> PodCondition {
    let known = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let same = known.iter().find(|c| c.type_ == type_ && c.status == status);
    let since = same.and_then(|c| c.last_transition_time.clone()).unwrap_or_else(|| time(seen.wall));
    PodCondition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.map(str::to_owned),
        message,
        last_transition_time: Some(since),
        ..Default::default()
    }
}
