//! Roles that are made of others: `aggregationRule` selects cluster roles by label, whose rules together are its own.
//!
//! Upstream leaves this to a controller (clusterrole-aggregation-controller); it may run against this server and finds
//! nothing left to do.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::index::CLUSTER_ROLES;
use super::rule::Rule;
use crate::core::Core;
use crate::status::Status;
use crate::store::{Change, Expect, Stored, Watcher, Write, WriteError};

/// Others may write in between this often before it is left to the next change.
const ATTEMPTS_MAX: usize = 16;
/// After a failure of the store.
const RETRY: Duration = Duration::from_secs(1);

/// Brings every aggregated role up to date.
pub async fn aggregate(core: &Core) -> Result<(), Status> {
    for _ in 0..ATTEMPTS_MAX {
        let page = core.store.page(CLUSTER_ROLES, None, None, None, usize::MAX).map_err(Status::internal)?;
        let mut disturbed = false;
        for (stored, object) in changed(&page.objects) {
            let write = Write {
                resource: CLUSTER_ROLES.into(),
                key: stored.key.clone(),
                expect: Expect::Version(stored.version),
                change: Change::Put(object),
            };
            match core.store.write(write).await {
                Ok(_) => {}
                // Somebody else wrote: the next attempt sees it.
                Err(WriteError::Conflict { .. }) => disturbed = true,
                Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
            }
        }
        if !disturbed {
            break;
        }
    }
    Ok(())
}

/// Keeps doing so whenever a cluster role changes, until `stop`.
pub async fn follow_aggregation(core: &Core, stop: CancellationToken) {
    loop {
        let change = async {
            match caught_up(core).await {
                // Lost history is a change, too.
                Ok(mut watcher) => _ = watcher.next().await,
                Err(status) => {
                    tracing::error!(why = status.message, "roles are not aggregated; trying again");
                    sleep(RETRY).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = change => {}
        }
    }
}

/// Everything is up to date but for what the watcher tells.
async fn caught_up(core: &Core) -> Result<Watcher, Status> {
    // From before the look, so that nothing that happens during it is missed.
    let watcher = core.store.watch(&CLUSTER_ROLES.into(), core.store.version()).map_err(Status::internal)?;
    aggregate(core).await?;
    Ok(watcher)
}

/// Aggregated roles whose rules are not what they should be, with the ones they should have.
fn changed(stored: &[Arc<Stored>]) -> Vec<(Arc<Stored>, Value)> {
    let mut roles: Vec<Role> = stored.iter().map(|role| Role::new(role, stored)).collect();
    settle(&mut roles);
    let mut changed = Vec::new();
    for (stored, role) in stored.iter().zip(roles) {
        if role.parts.is_some() && rules_of(&stored.value()) != role.rules {
            let mut object = stored.value();
            object["rules"] = role.rules.iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect();
            changed.push((stored.clone(), object));
        }
    }
    changed
}

/// A cluster role among all the others.
#[derive(Debug, Default)]
struct Role {
    rules: Vec<Rule>,
    /// Positions of the roles that an aggregated one is made of.
    parts: Option<Vec<usize>>,
}

impl Role {
    /// What an aggregated role holds by now says nothing: rules come from the roles that have their own.
    fn new(stored: &Stored, all: &[Arc<Stored>]) -> Self {
        let object = stored.value();
        match parts(&object, &stored.key.name, all) {
            None => Self { rules: rules_of(&object), parts: None },
            parts => Self { rules: Vec::new(), parts },
        }
    }
}

fn rules_of(role: &Value) -> Vec<Rule> {
    Vec::deserialize(&role["rules"]).unwrap_or_default()
}

/// Where the roles are that an aggregated one selects. `None` for other roles.
fn parts(role: &Value, name: &str, all: &[Arc<Stored>]) -> Option<Vec<usize>> {
    let selectors =
        role["aggregationRule"]["clusterRoleSelectors"].as_array().filter(|all| !all.is_empty())?;
    let mut parts = Vec::new();
    for wanted in selectors {
        let wanted = LabelSelector::deserialize(wanted).ok()?;
        let others = all.iter().enumerate().filter(|(_, role)| role.key.name != name);
        let chosen = others.filter(|(_, role)| selector::matches(&wanted, Some(role.labels())));
        parts.extend(chosen.map(|(position, _)| position));
    }
    Some(parts)
}

/// Fills the aggregated roles from the others, one after the other as upstream's controller would.
///
/// A role may be made of aggregated ones, and those of it in turn. Rules travel at least one step in each pass, and no
/// way through all roles is longer than there are roles, so a circle ends, too. The outcome depends on nothing but the
/// roles that have rules of their own: looking again changes nothing.
fn settle(roles: &mut [Role]) {
    for _ in 0..roles.len() {
        let mut quiet = true;
        for position in 0..roles.len() {
            let Some(rules) = roles[position].parts.as_ref().map(|parts| gathered(roles, parts)) else {
                continue;
            };
            quiet &= rules == roles[position].rules;
            roles[position].rules = rules;
        }
        if quiet {
            return;
        }
    }
}

/// The rules of some roles, each once.
fn gathered(roles: &[Role], parts: &[usize]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in parts.iter().flat_map(|part| &roles[*part].rules) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x` has a rule of its own, `abc` is made of the roles at these positions.
    fn roles(text: &str) -> Vec<Role> {
        let role = |(at, word): (usize, &str)| match word {
            "x" => Role { rules: vec![rule(at)], parts: None },
            parts => Role {
                rules: Vec::new(),
                parts: Some(parts.bytes().map(|letter| usize::from(letter - b'a')).collect()),
            },
        };
        text.split(' ').enumerate().map(role).collect()
    }

    fn rule(at: usize) -> Rule {
        Rule { verbs: vec![at.to_string()], ..Rule::default() }
    }

    /// Positions of the roles whose rules each role has in the end.
    fn settled(text: &str) -> String {
        let mut all = roles(text);
        settle(&mut all);
        let held = |role: &Role| role.rules.iter().map(|rule| rule.verbs.concat()).collect::<String>();
        all.iter().map(held).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_role_gets_what_its_parts_have() {
        let table = [
            ("x x", "0 1"),
            ("bc x x", "12 1 2"),
            ("cb x x", "21 1 2"),
            // Through others, in either direction.
            ("b c d x", "3 3 3 3"),
            ("x a b c", "0 0 0 0"),
            ("bd c x x", "23 2 2 3"),
            // The same rule on two ways, and one that is named twice.
            ("bcc d d x", "3 3 3 3"),
            // Circles: with nothing in them, and with something from either side.
            ("b a", " "),
            ("bc ad x x", "23 23 2 3"),
            ("b c ad x", "3 3 3 3"),
        ];
        for (roles, want) in table {
            assert_eq!(settled(roles), want, "{roles}");
        }
    }
}
