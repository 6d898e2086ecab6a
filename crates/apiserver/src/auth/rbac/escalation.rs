//! Nobody grants what they do not have: writes of roles and bindings by people who are no masters.
//!
//! A role may hold only what its writer may do, a binding only a role whose rules its writer may all do; `escalate` on
//! roles and `bind` on a role lift this.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::index::RoleRef;
use super::rule::{Rule, quoted};
use super::{Granted, combined};
use crate::admission::{Admission, AdmissionRequest, Lister, Operation};
use crate::auth::access::Access;
use crate::auth::attributes::ResourceAttributes;
use crate::auth::user::User;
use crate::json::{is_empty, same};
use crate::status::{Resource, Status};

const GROUP: &str = "rbac.authorization.k8s.io";
/// A rule is a product of lists: a small body can ask for more parts than anybody could look at.
const PARTS_MAX: usize = 100_000;
const NOT_ADMIN: &str = "must have cluster-admin privileges to use the aggregationRule";

/// The admission plugin. It is the last one to see an object before its rules are checked.
pub struct EscalationGuard;

impl Admission for EscalationGuard {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        let concerned = request.group == GROUP && request.subresource.is_empty();
        if !concerned || request.user.is_master() || request.old.is_some_and(|old| same_content(object, old))
        {
            return Ok(());
        }
        let access = lister.access().ok_or_else(|| Status::internal("there is no authorizer"))?;
        match request.plural {
            "roles" | "clusterroles" => check_role(request, object, access),
            "rolebindings" | "clusterrolebindings" => check_binding(request, object, access),
            _ => Ok(()),
        }
    }
}

/// Whether a write changes neither what is granted nor how it is found: then nothing is granted anew.
fn same_content(new: &Value, old: &Value) -> bool {
    let fields = ["rules", "aggregationRule", "roleRef", "subjects"];
    let metadata = ["labels", "annotations"];
    fields.iter().all(|field| same(&new[field], &old[field]))
        && metadata.iter().all(|field| same(&new["metadata"][field], &old["metadata"][field]))
}

fn check_role(request: &AdmissionRequest<'_>, object: &Value, access: &Access) -> Result<(), Status> {
    let name = if request.operation == Operation::Create { "" } else { request.name };
    if access.authorizer().allows(request.user, attributes(request, "escalate", request.plural, name)) {
        return Ok(());
    }
    let held = access.authorizer().rbac().granted(request.user, request.namespace);
    let rules: Vec<Rule> = field(object, "rules")?;
    confirm(request, &held, &rules)?;
    let gathers = |role: &Value| !is_empty(&role["aggregationRule"]["clusterRoleSelectors"]);
    // Whoever gathers rules can gather any.
    if (gathers(object) || request.old.is_some_and(gathers))
        && escalation(request.user, &held, &Rule::everything()).is_some()
    {
        return Err(forbidden(request, NOT_ADMIN));
    }
    Ok(())
}

fn check_binding(request: &AdmissionRequest<'_>, object: &Value, access: &Access) -> Result<(), Status> {
    let role: RoleRef = field(object, "roleRef")?;
    let plural = match role.kind.as_str() {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        // Refused by the rules of the kind.
        _ => return Ok(()),
    };
    let mut asked = attributes(request, "bind", plural, &role.name);
    asked.group.clone_from(&role.api_group);
    if access.authorizer().allows(request.user, asked) {
        return Ok(());
    }
    let rbac = access.authorizer().rbac();
    // Upstream names the kind of the request here, not that of the role.
    let missing = || Status::not_found(Resource { group: GROUP, plural: request.plural }, &role.name);
    let rules = rbac.rules_of(&role, request.namespace).ok_or_else(missing)?;
    confirm(request, &rbac.granted(request.user, request.namespace), &rules)
}

fn attributes(request: &AdmissionRequest<'_>, verb: &str, plural: &str, name: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: verb.into(),
        group: GROUP.into(),
        version: "*".into(),
        resource: plural.into(),
        namespace: request.namespace.into(),
        name: name.into(),
        ..ResourceAttributes::default()
    }
}

fn field<T: Default + for<'de> Deserialize<'de>>(object: &Value, name: &str) -> Result<T, Status> {
    match &object[name] {
        Value::Null => Ok(T::default()),
        value => T::deserialize(value).map_err(|error| Status::bad_request(error.to_string())),
    }
}

fn confirm(request: &AdmissionRequest<'_>, held: &Granted, wanted: &[Rule]) -> Result<(), Status> {
    match escalation(request.user, held, wanted) {
        None => Ok(()),
        Some(why) => Err(forbidden(request, &why)),
    }
}

fn forbidden(request: &AdmissionRequest<'_>, why: &str) -> Status {
    Status::forbidden(Resource { group: GROUP, plural: request.plural }, request.name, why)
}

/// Why rules may not be granted by somebody who holds others; `None` if all of them are held.
pub fn escalation(user: &User, held: &Granted, wanted: &[Rule]) -> Option<String> {
    let who = format!("user {:?} (groups={}) is attempting to grant", user.name, quoted(&user.groups));
    let is_held = |rule: &&Rule| held.rules.iter().any(|own| own.covers_whole(rule));
    let open: Vec<&Rule> = wanted.iter().filter(|rule| !is_held(rule)).collect();
    if open.iter().map(|rule| rule.size()).fold(0, usize::saturating_add) > PARTS_MAX {
        return Some(format!(
            "{who} rules that none of the rules currently held covers as a whole and that stand for more than {PARTS_MAX} single permissions: grant them in smaller roles"
        ));
    }
    let parts = open.into_iter().flat_map(Rule::broken_down);
    let missing: Vec<Rule> = parts.filter(|part| !held.rules.iter().any(|own| own.covers(part))).collect();
    if missing.is_empty() {
        return None;
    }
    let mut lines: Vec<String> = compacted(missing).iter().map(Rule::compact).collect();
    lines.sort();
    lines.dedup();
    let mut why = format!("{who} RBAC permissions not currently held:\n{}", lines.join("\n"));
    if !held.errors.is_empty() {
        why.push_str(&format!("; resolution errors: [{}]", combined(&held.errors)));
    }
    Some(why)
}

/// Joins rules that differ only in their verb.
fn compacted(rules: Vec<Rule>) -> Vec<Rule> {
    let mut by_resource: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    let mut out = Vec::new();
    for mut rule in rules {
        if rule.non_resource_urls.is_empty() {
            let verbs = std::mem::take(&mut rule.verbs);
            by_resource.entry(rule).or_default().extend(verbs);
        } else {
            out.push(rule);
        }
    }
    out.extend(by_resource.into_iter().map(|(rule, verbs)| Rule { verbs, ..rule }));
    out
}
