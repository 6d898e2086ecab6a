//! Lease: who leads, and until when.

use bowline_api::{Lease, Meta};
use serde_json::Value;

use super::check::{self, names};
use super::{Column, Names, Rules, age, column};
use crate::field::Invalid;

const STRATEGIES: [&str; 1] = ["OldestEmulationVersion"];

const COLUMNS: &[Column] = &[column::NAME, column::text("Holder", "Who holds the lease."), column::AGE];

pub struct LeaseRules;

impl Rules for LeaseRules {
    type Object = Lease;
    const NAMES: Names = Names { plural: "leases", singular: "lease", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const UNCONDITIONAL_UPDATE: bool = false;
    const CREATE_ON_UPDATE: bool = true;

    fn validate(lease: &Lease) -> Vec<Invalid> {
        let Some(spec) = &lease.spec else { return Vec::new() };
        let mut errors = Vec::new();
        if let Some(seconds) = spec.lease_duration_seconds.filter(|s| *s <= 0) {
            errors.push(Invalid::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        if let Some(count) = spec.lease_transitions {
            errors.extend(check::non_negative("spec.leaseTransitions", count.into()));
        }
        let strategy = spec.strategy.as_deref();
        errors.extend(strategy.map(strategy_errors).into_iter().flatten());
        let preferred = spec.preferred_holder.as_deref().unwrap_or_default();
        if !preferred.is_empty() && strategy.unwrap_or_default().is_empty() {
            let text = "may only be specified if `strategy` is defined";
            errors.push(Invalid::forbidden("spec.preferredHolder", text));
        }
        errors
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(lease: &Lease, now: jiff::Timestamp) -> Vec<Value> {
        let holder = lease.spec.as_ref().and_then(|s| s.holder_identity.as_deref()).unwrap_or_default();
        vec![lease.name().into(), holder.into(), age::age(&lease.metadata, now).into()]
    }
}

/// A strategy of ours by its name, anyone else's with a prefix. Upstream names the field twice.
fn strategy_errors(strategy: &str) -> Vec<Invalid> {
    let at = "spec.strategy.strategy";
    if strategy.contains('/') {
        names::qualified(at, strategy)
    } else {
        check::one_of(at, strategy, &STRATEGIES).into_iter().collect()
    }
}
