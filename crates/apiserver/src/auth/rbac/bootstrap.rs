//! Upstream's default roles and bindings: made if they are missing, and completed if somebody took something away.
//!
//! They are data, taken from a running kube-apiserver by `make rbac`. An object says with an annotation that it wants to
//! be left alone.

use std::sync::{Arc, LazyLock};

use bowline_api::{ObjectKey, keys};
use futures::future::try_join_all;
use serde::Deserialize;
use serde_json::Value;

use super::rule::Rule;
use crate::core::Core;
use crate::metadata;
use crate::registry::Kind;
use crate::status::Status;
use crate::store::{Change, Expect, Write, WriteError};
use crate::verbs;

const DEFAULTS: &str = include_str!("../../../bootstrap/rbac.jsonl");

/// What every kubelet may do with things that are not one node's or the other's.
pub fn node_rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        let is_node =
            |object: &Value| object["kind"] == "ClusterRole" && metadata::name(object) == "system:node";
        let role = defaults().find(is_node).unwrap_or_default();
        Vec::deserialize(&role["rules"]).unwrap_or_default()
    });
    &RULES
}

/// A test reads every line, so none is lost here.
fn defaults() -> impl Iterator<Item = Value> {
    DEFAULTS.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// Makes the defaults what they should be, and fills the roles that are made of others.
pub async fn bootstrap(core: &Arc<Core>) -> Result<(), Status> {
    // All at once: the store makes them durable together.
    try_join_all(defaults().map(|wanted| ensure(core, wanted))).await?;
    super::aggregate(core).await
}

async fn ensure(core: &Arc<Core>, wanted: Value) -> Result<(), Status> {
    let registry = core.registry();
    let is_kind = |kind: &&Arc<dyn Kind>| {
        wanted["apiVersion"] == *kind.info().api_version && wanted["kind"] == *kind.info().kind
    };
    let Some(kind) = registry.kinds().find(is_kind).cloned() else { return Ok(()) };
    let namespace = metadata::text(&wanted, "namespace").to_owned();
    let key = ObjectKey::new(&namespace, metadata::name(&wanted));
    let table = kind.info().table.clone();
    while let Some(stored) = core.store.get(&table, &key) {
        let change = match reconciled(&stored.value(), &wanted) {
            Repair::Nothing => return Ok(()),
            Repair::Change(object) => Change::Put(object),
            Repair::Replace => Change::Delete,
        };
        let expect = Expect::Version(stored.version);
        let write = Write { resource: table.clone(), key: key.clone(), expect, change };
        match core.store.write(write).await {
            // Looked at again: a deleted one is made anew, somebody else's change is seen.
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
        }
    }
    verbs::ensure(core, kind.as_ref(), &namespace, wanted).await
}

/// What has to happen to a stored default.
#[derive(Debug, Clone, PartialEq)]
pub enum Repair {
    Nothing,
    Change(Value),
    /// A binding to another role, which cannot be changed.
    Replace,
}

/// Adds what is missing; what somebody added stays.
pub fn reconciled(stored: &Value, wanted: &Value) -> Repair {
    if stored["metadata"]["annotations"][keys::RBAC_AUTOUPDATE] == "false" {
        return Repair::Nothing;
    }
    if stored["roleRef"] != wanted["roleRef"] {
        return Repair::Replace;
    }
    let mut object = stored.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            if object["metadata"][field].get(key).is_none() {
                object["metadata"][field][key] = value.clone();
            }
        }
    }
    add(&mut object, "subjects", missing_items(&stored["subjects"], &wanted["subjects"]));
    add(&mut object, "rules", missing_rules(&stored["rules"], &wanted["rules"]));
    let path = ["aggregationRule", "clusterRoleSelectors"];
    let selectors = |role: &Value| role[path[0]][path[1]].clone();
    let missing = missing_items(&selectors(stored), &selectors(wanted));
    if !missing.is_empty() {
        object[path[0]][path[1]] = joined(&selectors(stored), missing);
    }
    if object == *stored { Repair::Nothing } else { Repair::Change(object) }
}

fn add(object: &mut Value, field: &str, missing: Vec<Value>) {
    if !missing.is_empty() {
        object[field] = joined(&object[field], missing);
    }
}

fn joined(list: &Value, more: Vec<Value>) -> Value {
    let mut all = list.as_array().cloned().unwrap_or_default();
    all.extend(more);
    Value::Array(all)
}

fn missing_items(stored: &Value, wanted: &Value) -> Vec<Value> {
    let has = |item: &Value| stored.as_array().is_some_and(|all| all.contains(item));
    wanted.as_array().into_iter().flatten().filter(|item| !has(item)).cloned().collect()
}

/// Broken down, as upstream adds them.
fn missing_rules(stored: &Value, wanted: &Value) -> Vec<Value> {
    let rules = |list: &Value| Vec::<Rule>::deserialize(list).unwrap_or_default();
    let (own, wanted) = (rules(stored), rules(wanted));
    let parts = wanted.iter().flat_map(Rule::broken_down);
    let missing = parts.filter(|part| !own.iter().any(|rule| rule.covers(part)));
    missing.filter_map(|rule| serde_json::to_value(rule).ok()).collect()
}
