//! What the server says of a definition: whether its names are free, whether it is served. Pure.

use std::sync::Arc;

use bowline_api::keys::CUSTOM_RESOURCE_CLEANUP;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::approval::{self, Approval};
use super::{Definition, Names};
use crate::metadata;

pub const NAMES_ACCEPTED: &str = "NamesAccepted";
pub const ESTABLISHED: &str = "Established";
pub const TERMINATING: &str = "Terminating";
const CONFORMANT: &str = "KubernetesAPIApprovalPolicyConformant";

/// One condition as it should be.
pub struct Wanted {
    pub type_: &'static str,
    pub status: bool,
    pub reason: &'static str,
    pub message: String,
}

/// A definition with the status it should have, unless it has it. `others` are all definitions, this one or not;
/// `object` reads this one in full, for the few that ask for it.
pub fn settled(
    object: impl FnOnce() -> Value,
    definition: &Definition,
    others: &[Arc<Definition>],
    now: Timestamp,
) -> Option<Value> {
    let conformance = conformance(definition);
    let unnamed = definition.spec.names != definition.status.accepted_names
        || !definition.status.conditions.iter().any(|known| known.type_ == NAMES_ACCEPTED);
    if conformance.is_none() && !unnamed {
        return None;
    }
    let object = object();
    let mut new = object.clone();
    if let Some(conformance) = conformance {
        set(&mut new, &conformance, now);
    }
    if unnamed {
        let (accepted, conflict) = accept(definition, others);
        new["status"]["acceptedNames"] = names_json(&accepted);
        let accepted = conflict.is_none();
        let (reason, message) = conflict.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
        set(&mut new, &Wanted { type_: NAMES_ACCEPTED, status: accepted, reason, message }, now);
        if !definition.is(ESTABLISHED) {
            set(&mut new, &established(accepted), now);
        }
    }
    (new != object).then_some(new)
}

fn established(accepted: bool) -> Wanted {
    let (reason, message) = match accepted {
        true => ("InitialNamesAccepted", "the initial names have been accepted"),
        false => ("NotAccepted", "not all names are accepted"),
    };
    Wanted { type_: ESTABLISHED, status: accepted, reason, message: message.to_owned() }
}

fn conformance(definition: &Definition) -> Option<Wanted> {
    if !approval::is_protected(&definition.spec.group) {
        return None;
    }
    let (status, reason, message) = match approval::of(&definition.metadata) {
        Approval::Approved(by) => (true, "ApprovedAnnotation", format!("approved in {by}")),
        Approval::Bypassed(why) => (false, "UnapprovedAnnotation", format!("not approved: {why:?}")),
        Approval::Missing => (false, "MissingAnnotation", approval::missing_text()),
        Approval::Invalid => (false, "InvalidAnnotation", approval::invalid_text()),
    };
    Some(Wanted { type_: CONFORMANT, status, reason, message })
}

/// The names a definition gets, and the last one it does not get because another has it.
fn accept(definition: &Definition, others: &[Arc<Definition>]) -> (Names, Option<(&'static str, String)>) {
    let (wanted, own) = (&definition.spec.names, &definition.status.accepted_names);
    let taken: Vec<&Names> = others
        .iter()
        .filter(|other| other.spec.group == definition.spec.group)
        .map(|other| &other.status.accepted_names)
        .collect();
    let resource = |name: &str| {
        let has = |names: &&Names| {
            names.plural == name
                || names.singular == name
                || names.short_names.iter().any(|short| short == name)
        };
        taken.iter().any(has)
    };
    let kind = |name: &str| taken.iter().any(|names| names.kind == name || names.list_kind == name);
    let mut accepted = own.clone();
    let mut conflicts = Vec::new();
    let mut take = |wanted: &String, to: &mut String, used: &dyn Fn(&str) -> bool, reason| {
        if wanted == to || !used(wanted) {
            to.clone_from(wanted);
        } else {
            conflicts.push((reason, format!("{wanted:?} is already in use")));
        }
    };
    take(&wanted.plural, &mut accepted.plural, &resource, "PluralConflict");
    take(&wanted.singular, &mut accepted.singular, &resource, "SingularConflict");
    let clash = |name: &&String| !own.short_names.contains(name) && resource(name);
    let clashes: Vec<String> =
        wanted.short_names.iter().filter(clash).map(|name| format!("{name:?} is already in use")).collect();
    match &clashes[..] {
        [] => accepted.short_names.clone_from(&wanted.short_names),
        [one] => conflicts.push(("ShortNamesConflict", one.clone())),
        many => conflicts.push(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    let mut take = |wanted: &String, to: &mut String, reason| {
        if wanted == to || !kind(wanted) {
            to.clone_from(wanted);
        } else {
            conflicts.push((reason, format!("{wanted:?} is already in use")));
        }
    };
    take(&wanted.kind, &mut accepted.kind, "KindConflict");
    take(&wanted.list_kind, &mut accepted.list_kind, "ListKindConflict");
    accepted.categories.clone_from(&wanted.categories);
    (accepted, conflicts.pop())
}

fn names_json(names: &Names) -> Value {
    let mut out = json!({"plural": names.plural, "kind": names.kind});
    for (field, text) in [("singular", &names.singular), ("listKind", &names.list_kind)] {
        if !text.is_empty() {
            out[field] = text.as_str().into();
        }
    }
    for (field, list) in [("shortNames", &names.short_names), ("categories", &names.categories)] {
        if !list.is_empty() {
            out[field] = json!(list);
        }
    }
    out
}

/// Sets a condition; its time moves only with its status.
pub fn set(object: &mut Value, wanted: &Wanted, now: Timestamp) {
    let status = if wanted.status { "True" } else { "False" };
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(all) = conditions.as_array_mut() else { return };
    let old = all.iter_mut().find(|condition| condition["type"] == wanted.type_);
    let since = match &old {
        Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
        _ => metadata::timestamp(now),
    };
    let new = json!({
        "type": wanted.type_, "status": status, "lastTransitionTime": since,
        "reason": wanted.reason, "message": wanted.message,
    });
    match old {
        Some(old) => *old = new,
        None => all.push(new),
    }
}

/// A definition whose end is announced: its objects go first.
pub fn announced(object: &Value, now: Timestamp) -> Value {
    let mut new = object.clone();
    metadata::set(&mut new, "deletionTimestamp", Some(metadata::timestamp(now)));
    let mut finalizers: Vec<&str> = metadata::finalizers(object);
    if !finalizers.contains(&CUSTOM_RESOURCE_CLEANUP) {
        finalizers.push(CUSTOM_RESOURCE_CLEANUP);
    }
    metadata::set(&mut new, "finalizers", Some(json!(finalizers)));
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let pending = Wanted {
        type_: TERMINATING,
        status: true,
        reason: "InstanceDeletionPending",
        message: message.into(),
    };
    set(&mut new, &pending, now);
    new
}

/// Objects are left that somebody else holds.
pub fn cleaning(object: &Value, now: Timestamp) -> Value {
    let mut new = object.clone();
    let message = "CustomResource deletion is in progress".to_owned();
    let reason = "InstanceDeletionInProgress";
    set(&mut new, &Wanted { type_: TERMINATING, status: true, reason, message }, now);
    new
}

/// No objects are left.
pub fn cleaned(object: &Value) -> Value {
    let mut new = object.clone();
    let rest: Vec<&str> =
        metadata::finalizers(object).into_iter().filter(|name| *name != CUSTOM_RESOURCE_CLEANUP).collect();
    metadata::set(&mut new, "finalizers", (!rest.is_empty()).then(|| json!(rest)));
    new
}
