//! Priority: pods carry the value of their class, and one class at most is the default.

use serde_json::Value;

use crate::admission::{Admission, AdmissionRequest, Lister, Operation};
use crate::kinds::priorityclass::PREEMPT;
use crate::metadata;
use crate::status::{Resource, Status};

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

pub struct Priorities;

impl Admission for Priorities {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if !request.is("", "pods") {
            return Ok(());
        }
        match request.old {
            Some(old) => {
                keep(object, old);
                Ok(())
            }
            None => assign(object, lister).map_err(|why| refused(request, &why)),
        }
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        let marks = request.is(GROUP, CLASSES) && request.operation != Operation::Delete;
        if !marks || object["globalDefault"] != true {
            return Ok(());
        }
        match default_class(lister) {
            Some(other) if metadata::name(&other) != request.name || request.old.is_none() => {
                let other = metadata::name(&other);
                let why =
                    format!("PriorityClass {other} is already marked as default. Only one default can exist");
                Err(refused(request, &why))
            }
            _ => Ok(()),
        }
    }
}

fn refused(request: &AdmissionRequest<'_>, why: &str) -> Status {
    Status::forbidden(Resource { group: request.group, plural: request.plural }, request.name, why)
}

/// A client that does not know the fields may not lose them.
fn keep(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        let before = &old["spec"][field];
        if pod["spec"][field].is_null() && !before.is_null() {
            pod["spec"][field] = before.clone();
        }
    }
}

fn assign(pod: &mut Value, lister: &dyn Lister) -> Result<(), String> {
    let named = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
    let class = match named {
        "" => default_class(lister),
        name => Some(
            lister
                .get(GROUP, CLASSES, "", name)
                .ok_or_else(|| format!("no PriorityClass with name {name} was found"))?,
        ),
    };
    let spec = &mut pod["spec"];
    let (priority, policy) = match &class {
        Some(class) => {
            spec["priorityClassName"] = metadata::name(class).into();
            (class["value"].as_i64().unwrap_or(0), class["preemptionPolicy"].clone())
        }
        None => (0, PREEMPT.into()),
    };
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    spec["priority"] = priority.into();
    let Some(policy) = policy.as_str() else { return Ok(()) };
    if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec["preemptionPolicy"] = policy.into();
    Ok(())
}

/// Of several, which only a race can make, the least important.
fn default_class(lister: &dyn Lister) -> Option<Value> {
    let classes = lister.list(GROUP, CLASSES).into_iter();
    classes.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
}
