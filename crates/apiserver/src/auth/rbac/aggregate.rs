//! Roles that are made of others: `aggregationRule` selects cluster roles by label, whose rules together are its own.
//!
//! Upstream leaves this to a controller (clusterrole-aggregation-controller); it may run against this server and finds
//! nothing left to do.

use std::sync::Arc;

use bowline_api::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::index::CLUSTER_ROLES;
use super::rule::Rule;
use crate::core::Core;
use crate::status::Status;
use crate::store::{Change, Expect, Stored, Watcher, Write, WriteError};

/// Roles may be made of roles that are made of others; a circle settles within this too.
const PASSES_MAX: usize = 16;

/// Brings every aggregated role up to date.
pub async fn aggregate(core: &Core) -> Result<(), Status> {
    for _ in 0..PASSES_MAX {
        let page = core.store.page(CLUSTER_ROLES, None, None, None, usize::MAX).map_err(Status::internal)?;
        let changed = changed(&page.objects);
        if changed.is_empty() {
            break;
        }
        for (stored, object) in changed {
            let write = Write {
                resource: CLUSTER_ROLES.into(),
                key: stored.key.clone(),
                expect: Expect::Version(stored.version),
                change: Change::Put(object),
            };
            match core.store.write(write).await {
                // Somebody else wrote: the next pass sees it.
                Ok(_) | Err(WriteError::Conflict { .. }) => {}
                Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
            }
        }
    }
    Ok(())
}

/// Keeps doing so whenever a cluster role changes, until `stop`.
pub async fn follow_aggregation(core: &Core, stop: CancellationToken) {
    let table: Arc<str> = CLUSTER_ROLES.into();
    loop {
        // From before the pass, so that nothing that happens during it is missed.
        let Ok(mut watcher) = core.store.watch(&table, core.store.version()) else { continue };
        if let Err(status) = aggregate(core).await {
            return tracing::error!(why = status.message, "roles are no longer aggregated");
        }
        if !wait(&mut watcher, &stop).await {
            return;
        }
    }
}

/// Whether something happened before the end.
async fn wait(watcher: &mut Watcher, stop: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        // Lost history is something that happened.
        _ = watcher.next() => true,
    }
}

/// Aggregated roles whose rules are not what they should be, with the ones they should have.
fn changed(roles: &[Arc<Stored>]) -> Vec<(Arc<Stored>, Value)> {
    let mut changed = Vec::new();
    for stored in roles {
        let mut object = stored.value();
        let Some(rules) = gathered(&object, &stored.key.name, roles) else { continue };
        let own = Vec::<Rule>::deserialize(&object["rules"]).unwrap_or_default();
        if own != rules {
            object["rules"] = rules.iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect();
            changed.push((stored.clone(), object));
        }
    }
    changed
}

/// The rules of all roles that an aggregated one selects, each once. `None` for other roles.
fn gathered(role: &Value, name: &str, roles: &[Arc<Stored>]) -> Option<Vec<Rule>> {
    let selectors =
        role["aggregationRule"]["clusterRoleSelectors"].as_array().filter(|all| !all.is_empty())?;
    let mut rules: Vec<Rule> = Vec::new();
    for wanted in selectors {
        let wanted = LabelSelector::deserialize(wanted).ok()?;
        let chosen = roles.iter().filter(|role| role.key.name != name);
        for role in chosen.filter(|role| selector::matches(&wanted, Some(role.labels()))) {
            let own = Vec::<Rule>::deserialize(&role.value()["rules"]).unwrap_or_default();
            own.into_iter().for_each(|rule| {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            });
        }
    }
    Some(rules)
}
