//! When a volume on this node is expanded, and what the claim's status says of it (reference kube-core.md 6.4).
//!
//! A published volume that is smaller than its PersistentVolume is expanded before containers may use it; one that
//! containers use, while they do. Each step is an effect of its own: a process that dies between them leaves
//! `NodeResizeInProgress`, and the next one repeats NodeExpandVolume.

use bowline_api::{Meta, PersistentVolume, bytes_of, expansion, keys, volume};

use super::{Wait, driver_missing};
use crate::kubelet::volumemanager::model::{Action, DriverSeen, Need, Observed, Presence, SizeSeen, Target};

/// What is left to do until the volume has its size.
enum Goal {
    Nothing,
    /// Another node has expanded it, or no node had to: only what this node knows is old.
    TakeOver,
    /// The controller has left it to the node.
    Begin,
    /// `writes`: the claim's status does not say so yet.
    Grow {
        bytes: i64,
        writes: bool,
    },
}

/// Whether a claim has been promised less than its volume has: it is expanded before it is used.
pub fn smaller_than_volume(size: &SizeSeen, pv: &PersistentVolume) -> bool {
    volume::promised_bytes(&size.claim) < desired(pv)
}

pub fn expand(seen: &Observed, target: &Target, need: &Need) -> Option<Result<Action, Wait>> {
    let mounting = need.presence == Presence::Unexpanded;
    let settle = || Action::Settle(target.clone());
    let nothing = || mounting.then(|| Ok(settle()));
    let (Some(size), Some(pv)) = (seen.sizes.get(&target.spec_name), seen.sources.get(&target.spec_name))
    else {
        return nothing();
    };
    let in_progress = expansion::resize_status(&size.claim) == expansion::NODE_RESIZE_IN_PROGRESS;
    if in_progress && size.ended.as_ref().is_some_and(|ended| ended.failure.is_some()) {
        return Some(Ok(Action::FailExpand(target.clone())));
    }
    let due = match mounting {
        true => smaller_than_volume(size, pv) && !size.in_use_error,
        false => !need.read_only && !size.in_use_error && desired(pv) > size.known,
    };
    if !due {
        return nothing();
    }
    if need.read_only {
        return Some(Ok(Action::SettleReadOnly(target.clone())));
    }
    let expands = match seen.driver {
        DriverSeen::Registered { expands, .. } => expands,
        DriverSeen::Missing { since } => return Some(driver_missing(seen, target, need, since)),
    };
    match goal(size, pv, expands) {
        Goal::Nothing => nothing(),
        Goal::TakeOver => Some(Ok(settle())),
        Goal::Begin => Some(Ok(Action::BeginExpand(target.clone()))),
        Goal::Grow { bytes, writes } => {
            let done = size.ended.as_ref().is_some_and(|e| e.bytes == bytes && e.failure.is_none());
            Some(Ok(match (done, writes) {
                (false, _) => Action::Expand(target.clone(), bytes),
                (true, true) => Action::FinishExpand(target.clone()),
                (true, false) => settle(),
            }))
        }
    }
}

/// The size that was allocated counts where a resizer writes it; before, it was the volume's.
fn goal(size: &SizeSeen, pv: &PersistentVolume, expands: bool) -> Goal {
    let claim = &size.claim;
    let (status, allocated) = (expansion::resize_status(claim), expansion::allocated(claim));
    let bytes = match allocated {
        Some(allocated) => bytes_of(allocated).unwrap_or_default(),
        None => desired(pv),
    };
    let promised = volume::promised_bytes(claim);
    if status.is_empty() && promised >= bytes {
        let shared = volume::volume_access_modes(pv).iter().any(|mode| mode == volume::READ_WRITE_MANY);
        let needless = claim.annotation(keys::NODE_EXPANSION_NOT_REQUIRED).is_some();
        return match shared && !needless && expands {
            true => Goal::Grow { bytes, writes: false },
            false => Goal::TakeOver,
        };
    }
    match (status, allocated) {
        (expansion::NODE_RESIZE_PENDING, _) => Goal::Begin,
        (expansion::NODE_RESIZE_IN_PROGRESS, _) => Goal::Grow { bytes, writes: true },
        ("", None) if expands => Goal::Grow { bytes, writes: true },
        ("", None) => Goal::TakeOver,
        _ => Goal::Nothing,
    }
}

/// Bytes that the volume has, as its controller says.
fn desired(pv: &PersistentVolume) -> i64 {
    volume::capacity_bytes(pv).unwrap_or_default()
}
