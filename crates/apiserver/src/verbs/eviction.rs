//! `pods/x/eviction`: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Value, json};

use super::update::change;
use super::{Actor, Call, Outcome, Reply, delete, input, other};
use crate::admission::{AdmissionRequest, Lister, Operation};
use crate::core::Core;
use crate::http::query::Query;
use crate::metadata;
use crate::registry::{KindInfo, Part};
use crate::status::{Cause, Resource, Status};

const KIND: &str = "Eviction";
const GROUP: &str = "policy";
const BUDGETS: &str = "poddisruptionbudgets";
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const SEVERAL: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
const ALLOWED: &str = "DisruptionAllowed";
/// Evictions that no controller has confirmed yet.
const UNCONFIRMED_MAX: usize = 2000;
/// How often a pod that changes meanwhile is looked at again.
const ATTEMPTS_MAX: usize = 20;
/// How long a client waits for a controller to look at a budget.
const RETRY_SECONDS: u32 = 10;

pub fn applies(info: &KindInfo) -> bool {
    info.resource() == Resource { group: "", plural: "pods" }
}

/// The name of the call is the pod's.
pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    let mut body = input::parse(call)?;
    if body["apiVersion"] == "policy/v1beta1" {
        body["apiVersion"] = "policy/v1".into();
    }
    let mut eviction = other::decode(call, body, "policy/v1", KIND)?.object;
    let request = AdmissionRequest {
        operation: Operation::Create,
        group: "",
        plural: "pods",
        kind: KIND,
        subresource: "eviction",
        namespace: call.namespace.as_deref().unwrap_or_default(),
        name: call.name(),
        old: None,
        user: &call.user,
        now: core.clock.now(),
        notes: &call.notes,
    };
    core.admit(&request, &mut eviction)?;
    if metadata::name(&eviction) != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    core.validate(&request, &eviction)?;
    let mut eviction = Eviction { core, call, options: eviction["deleteOptions"].clone(), insists: true };
    if eviction.options.is_null() {
        eviction.options = json!({});
    }
    if call.query.dry_run()? {
        eviction.options["dryRun"] = json!(["All"]);
    }
    eviction.insists = eviction.options["preconditions"]["resourceVersion"].is_string();
    eviction.evict().await?;
    let status = Status::new(StatusCode::CREATED, "", "");
    Ok(Reply::plain(Outcome::Status { code: StatusCode::CREATED, status }))
}

struct Eviction<'a> {
    core: &'a Arc<Core>,
    call: &'a Call,
    options: Value,
    /// The client named the version of the pod it means.
    insists: bool,
}

impl Eviction<'_> {
    async fn evict(&self) -> Result<(), Status> {
        for attempt in 1.. {
            let pod = self.pod()?;
            if !is_guarded(&pod) {
                let settled = metadata::deleting(&pod) || is_over(&pod) || self.insists;
                match self.delete((!settled).then_some(&pod)).await {
                    // It may have become healthy, and then a budget guards it.
                    Err(status) if status.reason == "Conflict" && !self.insists && attempt < ATTEMPTS_MAX => {
                    }
                    other => return other,
                }
                continue;
            }
            return match self.budget(&pod).await? {
                Leave::Granted => self.delete(None).await,
                // Only as long as it stays unhealthy.
                Leave::Unhealthy(name) => match self.delete((!self.insists).then_some(&pod)).await {
                    Err(status) if status.reason == "Conflict" && !self.insists => Err(processing(&name)),
                    other => other,
                },
            };
        }
        Ok(())
    }

    fn pod(&self) -> Result<Value, Status> {
        let found = self.core.store.get(&self.call.info().table, &self.call.key());
        found.map(|pod| pod.value()).ok_or_else(|| self.call.not_found())
    }

    fn dry_run(&self) -> bool {
        !self.options["dryRun"].as_array().is_none_or(Vec::is_empty)
    }

    /// Says why the pod goes, and lets it go. `pinned` is the pod that is meant, if it may not change meanwhile.
    async fn delete(&self, pinned: Option<&Value>) -> Result<(), Status> {
        let mut options = self.options.clone();
        if let Some(pod) = pinned {
            options["preconditions"]["resourceVersion"] = metadata::text(pod, "resourceVersion").into();
        }
        if !self.dry_run() {
            let now = self.core.clock.now();
            let wanted = options["preconditions"].clone();
            let told = change(self.core, self.call, Part::Status, |pod| {
                matches(&wanted, pod)?;
                Ok(targeted(pod, now))
            })
            .await?;
            let told: Value = serde_json::from_slice(&told).map_err(Status::internal)?;
            if wanted["resourceVersion"].is_string() {
                options["preconditions"]["resourceVersion"] = metadata::text(&told, "resourceVersion").into();
            }
        }
        let options = delete::embedded(&options)?;
        let actor = Actor::of(self.call)?;
        delete::delete(self.core, self.call.kind.as_ref(), &self.call.key(), &options, &actor).await.map(drop)
    }

    /// Takes a disruption from the budget that guards the pod, if there is one.
    async fn budget(&self, pod: &Value) -> Result<Leave, Status> {
        let budgets: Vec<Value> =
            self.core.list(GROUP, BUDGETS).into_iter().filter(|budget| guards(budget, pod)).collect();
        let budget = match &budgets[..] {
            [] => return Ok(Leave::Granted),
            [budget] => budget,
            _ => return Err(Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", SEVERAL)),
        };
        let name = metadata::name(budget).to_owned();
        if !is_ready(pod) && spares(budget) {
            return Ok(Leave::Unhealthy(name));
        }
        let now = self.core.clock.now();
        if self.dry_run() {
            decrement(budget, self.call.name(), now)?;
            return Ok(Leave::Granted);
        }
        let registry = self.core.registry();
        let kind = registry.kind(GROUP, "v1", BUDGETS).ok_or_else(Status::no_such_resource)?;
        let call = Call {
            kind: kind.clone(),
            namespace: self.call.namespace.clone(),
            name: Some(name),
            subresource: Some(Part::Status.subresource().into()),
            query: Query::default(),
            form: self.call.form,
            encoding: self.call.encoding,
            content_type: String::new(),
            body: Default::default(),
            user: self.call.user.clone(),
            notes: self.call.notes.clone(),
            user_agent: self.call.user_agent.clone(),
            closing: self.call.closing.clone(),
        };
        change(self.core, &call, Part::Status, |budget| decrement(budget, self.call.name(), now)).await?;
        Ok(Leave::Granted)
    }
}

/// Why a guarded pod may go.
enum Leave {
    Granted,
    /// It does not count as healthy, so the budget, of this name, does not miss it.
    Unhealthy(String),
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// A pod that has not started, is over or is going already disrupts nothing any more.
fn is_guarded(pod: &Value) -> bool {
    !is_over(pod) && pod["status"]["phase"] != "Pending" && !metadata::deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn guards(budget: &Value, pod: &Value) -> bool {
    let selector = LabelSelector::deserialize(&budget["spec"]["selector"]);
    let labels = serde_json::from_value(pod["metadata"]["labels"].clone()).ok();
    let here = metadata::text(budget, "namespace") == metadata::text(pod, "namespace");
    // Without a selector a budget is for no pod at all; with an empty one for all.
    here && selector.is_ok_and(|selector| bowline_api::selector::matches(&selector, labels.as_ref()))
}

/// Whether a budget lets unhealthy pods go: always, or while enough others are healthy.
fn spares(budget: &Value) -> bool {
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy")
}

/// The preconditions of a deletion, which hold for the pod before anything is written about it.
fn matches(wanted: &Value, pod: &Value) -> Result<(), Status> {
    let texts =
        [("uid", "UID", "deleted and then recreated"), ("resourceVersion", "ResourceVersion", "modified")];
    for (field, shown, what) in texts {
        let (want, have) = (wanted[field].as_str().unwrap_or_default(), metadata::text(pod, field));
        if !want.is_empty() && want != have {
            let why = format!(
                "the {shown} in the precondition ({want}) does not match the {shown} in record ({have}). The object might have been {what}"
            );
            let resource = Resource { group: "", plural: "Pod" };
            return Err(Status::conflict(resource, metadata::name(pod), &why));
        }
    }
    Ok(())
}

/// A pod that says that it was chosen to go.
fn targeted(pod: &Value, now: Timestamp) -> Value {
    let mut pod = pod.clone();
    let told = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": metadata::timestamp(now),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    let conditions = &mut pod["status"]["conditions"];
    match conditions.as_array_mut() {
        None => *conditions = json!([told]),
        Some(all) => match all.iter_mut().find(|one| one["type"] == told["type"]) {
            // The time is that of the last change of status.
            Some(one) if one["status"] == "True" => {
                let since = one["lastTransitionTime"].clone();
                *one = told;
                one["lastTransitionTime"] = since;
            }
            Some(one) => *one = told,
            None => all.push(told),
        },
    }
    pod
}

fn processing(budget: &str) -> Status {
    let text = format!("The disruption budget {budget} is still being processed by the server.");
    Status::too_many_requests(REFUSED, RETRY_SECONDS, cause(text))
}

fn cause(message: String) -> Cause {
    Cause { reason: "DisruptionBudget".into(), message, field: String::new() }
}

/// The budget with one disruption less, or why there is none to be had.
fn decrement(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Status> {
    let (name, status) = (metadata::name(budget), &budget["status"]);
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let resource = Resource { group: GROUP, plural: "poddisruptionbudget" };
    if count("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err(processing(name));
    }
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return Err(Status::forbidden(resource, name, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > UNCONFIRMED_MAX) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(resource, name, why));
    }
    if allowed == 0 {
        return Err(Status::too_many_requests(REFUSED, 0, cause(exhausted(name, status))));
    }
    let mut budget = budget.clone();
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        note_exhausted(status, now);
    }
    if status["disruptedPods"].is_null() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = metadata::timestamp(now);
    Ok(budget)
}

fn exhausted(name: &str, status: &Value) -> String {
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let conditions = status["conditions"].as_array();
    let condition =
        conditions.into_iter().flatten().find(|one| one["type"] == ALLOWED && one["status"] == "False");
    let text = |field: &str| condition.and_then(|one| one[field].as_str()).unwrap_or_default();
    let (reason, message) = (text("reason"), text("message"));
    if reason == "SyncFailed" && !message.is_empty() {
        return format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        );
    }
    let (needs, has) = (count("desiredHealthy"), count("currentHealthy"));
    if has <= needs {
        return format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently");
    }
    match message {
        "" => format!("The disruption budget {name} does not allow evicting pods currently"),
        _ => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
    }
}

/// The last disruption is gone.
fn note_exhausted(status: &mut Value, now: Timestamp) {
    let mut condition = json!({
        "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": metadata::timestamp(now),
    });
    if !status["observedGeneration"].is_null() {
        condition["observedGeneration"] = status["observedGeneration"].clone();
    }
    match status["conditions"].as_array_mut() {
        None => status["conditions"] = json!([condition]),
        Some(all) => match all.iter_mut().find(|one| one["type"] == ALLOWED) {
            Some(one) => {
                if one["status"] == "False" {
                    condition["lastTransitionTime"] = one["lastTransitionTime"].clone();
                }
                *one = condition;
            }
            None => all.push(condition),
        },
    }
}
