//! Lease: who leads, and until when.

use bowline_api::{Lease, Meta};
use serde_json::Value;

use super::check;
use super::{Column, Names, Rules, age, column};
use crate::field::Invalid;

const COLUMNS: &[Column] = &[column::NAME, column::text("Holder", "Who holds the lease."), column::AGE];

pub struct LeaseRules;

impl Rules for LeaseRules {
    type Object = Lease;
    const NAMES: Names = Names { plural: "leases", singular: "lease", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const UNCONDITIONAL_UPDATE: bool = false;
    const CREATE_ON_UPDATE: bool = true;

    fn prepare_create(lease: &mut Lease, _now: jiff::Timestamp) {
        forget_strategy(lease);
    }

    fn prepare_update(new: &mut Lease, _old: &Lease) {
        forget_strategy(new);
    }

    fn validate(lease: &Lease) -> Vec<Invalid> {
        let Some(spec) = &lease.spec else { return Vec::new() };
        let mut errors = Vec::new();
        if let Some(seconds) = spec.lease_duration_seconds.filter(|s| *s <= 0) {
            errors.push(Invalid::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        if let Some(count) = spec.lease_transitions {
            errors.extend(check::non_negative("spec.leaseTransitions", count.into()));
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

/// Coordinated leader election is behind a gate that upstream keeps closed.
fn forget_strategy(lease: &mut Lease) {
    if let Some(spec) = &mut lease.spec {
        (spec.strategy, spec.preferred_holder) = (None, None);
    }
}
