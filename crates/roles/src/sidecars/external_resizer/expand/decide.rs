//! The behaviour: which size to work towards, and which step is next.

use bowline_api::expansion::{
    CONTROLLER_RESIZE_IN_PROGRESS, CONTROLLER_RESIZE_INFEASIBLE, FILE_SYSTEM_RESIZE_PENDING,
    NODE_RESIZE_IN_PROGRESS, NODE_RESIZE_INFEASIBLE, NODE_RESIZE_PENDING, RESIZING, allocated,
    claim_capacity, condition_holds, resize_status,
};
use bowline_api::quantity::{BadQuantity, nanos};
use bowline_api::{Meta, PersistentVolume, keys, volume};
use bowline_machinery::Step;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::model::{Action, Expansion, Observed, Outcome, Why};

type Decision = Step<Action, Why>;

/// A size that compares by value and keeps its notation.
#[derive(Debug, Clone)]
struct Size {
    nanos: i128,
    quantity: Quantity,
}

impl Size {
    fn of(quantity: Option<&Quantity>) -> Result<Self, BadQuantity> {
        let quantity = quantity.cloned().unwrap_or_else(|| Quantity("0".into()));
        Ok(Self { nanos: nanos(&quantity.0)?, quantity })
    }
}

struct Sizes {
    /// What the claim asks for.
    spec: Size,
    /// What the claim has.
    capacity: Size,
    /// What the last expansion worked towards.
    allocated: Option<Size>,
    /// What the volume has.
    volume: Size,
}

impl Sizes {
    fn of(seen: &Observed) -> Result<Self, BadQuantity> {
        let volume = seen.volume.as_ref().and_then(|volume| volume.spec.as_ref());
        let volume = volume.and_then(|spec| spec.capacity.as_ref()?.get(volume::STORAGE));
        Ok(Self {
            spec: Size::of(seen.claim.spec.as_ref().and_then(volume::requested))?,
            capacity: Size::of(claim_capacity(&seen.claim))?,
            allocated: allocated(&seen.claim).map(|size| Size::of(Some(size))).transpose()?,
            volume: Size::of(volume)?,
        })
    }

    fn allocates(&self, target: &Size) -> bool {
        self.allocated.as_ref().is_some_and(|allocated| allocated.nanos == target.nanos)
    }
}

pub fn decide(seen: &Observed) -> Decision {
    let claim = seen.claim.as_ref();
    if volume::claim_phase(claim) != volume::BOUND || volume::claim_volume(claim).is_empty() {
        return Step::Done;
    }
    let Ok(sizes) = Sizes::of(seen) else { return Step::Fail(Why::BadQuantity(claim.key())) };
    if sizes.spec.nanos <= sizes.capacity.nanos {
        return Step::Done;
    }
    let Some(object) = &seen.volume else {
        let volume = volume::claim_volume(claim).to_owned();
        return Step::Wait(Why::VolumeMissing { claim: claim.key(), volume });
    };
    match owner(seen, object) {
        Owner::Other => return Step::Done,
        Owner::InTree => {
            let (claim, driver) = (claim.key(), seen.settings.driver.clone());
            return Step::Wait(Why::InTree { claim, driver });
        }
        Owner::Us => {}
    }
    conclude(seen, &sizes).unwrap_or_else(|| begin(seen, &sizes))
}

enum Owner {
    Us,
    Other,
    /// The driver took this volume over from an in-tree plugin.
    InTree,
}

fn owner(seen: &Observed, object: &PersistentVolume) -> Owner {
    let claim = seen.claim.as_ref();
    // A reservation by name is not enough: the volume may be another claim's.
    let bound = volume::claim_ref(object).is_some_and(|reference| {
        reference.namespace.as_deref() == Some(claim.namespace())
            && reference.uid.as_deref() == Some(claim.uid())
    });
    let driver = &seen.settings.driver;
    let migrated = keys::MIGRATED.iter().any(|(_, migrated)| migrated == driver)
        && claim.annotation(keys::STORAGE_RESIZER) == Some(driver);
    match volume::csi(object) {
        _ if !bound => Owner::Other,
        Some(source) if source.driver == *driver => Owner::Us,
        None if migrated => Owner::InTree,
        Some(_) | None => Owner::Other,
    }
}

/// What is left to write down of the driver's last answer: the volume first, so that a crash in between is healed by what
/// the volume says.
fn conclude(seen: &Observed, sizes: &Sizes) -> Option<Decision> {
    let ours = |target: &Quantity| {
        Size::of(Some(target)).is_ok_and(|target| sizes.allocates(&target))
            && condition_holds(&seen.claim, RESIZING)
    };
    match seen.attempt.outcome.as_ref()? {
        Outcome::Refused { target, .. } if ours(target) => Some(Step::Do(Action::MarkRefused)),
        Outcome::Expanded { target, size, node } if ours(target) => {
            let confirmed = Size::of(Some(size)).ok()?;
            let handed_over =
                matches!(resize_status(&seen.claim), NODE_RESIZE_PENDING | NODE_RESIZE_IN_PROGRESS);
            if confirmed.nanos != sizes.volume.nanos {
                return Some(Step::Do(Action::UpdateVolume { size: size.clone() }));
            }
            match node {
                false => Some(Step::Do(Action::MarkDone { size: size.clone() })),
                true if handed_over => None,
                true => Some(Step::Do(Action::MarkNodePending)),
            }
        }
        Outcome::Refused { .. } | Outcome::Expanded { .. } => None,
    }
}

/// The status says what is worked towards before the driver is asked for it.
fn begin(seen: &Observed, sizes: &Sizes) -> Decision {
    let Some(target) = target(seen, sizes) else { return Step::Done };
    let claim = seen.claim.as_ref();
    let fresh = !sizes.allocates(&target);
    if seen.attempt.slow && !fresh {
        return Step::Wait(Why::Infeasible(claim.key()));
    }
    let target = target.quantity;
    let noted =
        condition_holds(claim, RESIZING) && claim.annotation(keys::NODE_EXPANSION_NOT_REQUIRED).is_none();
    if fresh || !noted {
        return Step::Do(Action::Mark { target, fresh });
    }
    if seen.attempt.offline_only && seen.user.is_some() {
        let (claim, driver) = (claim.key(), seen.settings.driver.clone());
        return Step::Wait(Why::InUse { claim, driver });
    }
    Step::Do(Action::Expand { target })
}

/// Which size to work towards; nothing if it is the kubelet's turn.
fn target(seen: &Observed, sizes: &Sizes) -> Option<Size> {
    let (spec, allocated) = (&sizes.spec, sizes.allocated.as_ref());
    let pinned = || allocated.unwrap_or(spec);
    let status = resize_status(&seen.claim);
    let target = if sizes.volume.nanos < spec.nanos {
        match status {
            NODE_RESIZE_INFEASIBLE => pinned(),
            NODE_RESIZE_PENDING | NODE_RESIZE_IN_PROGRESS => {
                Some(pinned()).filter(|target| sizes.volume.nanos < target.nanos)?
            }
            // The call may have taken effect: only a final error frees the claim from its size.
            CONTROLLER_RESIZE_IN_PROGRESS if !seen.attempt.refused => pinned(),
            _ => spec,
        }
    } else {
        match status {
            NODE_RESIZE_PENDING | NODE_RESIZE_IN_PROGRESS => return None,
            NODE_RESIZE_INFEASIBLE => match seen.settings.expansion {
                Expansion::Controller => pinned(),
                // No volume has grown yet, so that a smaller size is still possible.
                Expansion::NodeOnly => spec,
            },
            CONTROLLER_RESIZE_IN_PROGRESS | CONTROLLER_RESIZE_INFEASIBLE => pinned(),
            // What the claim already has is complete: pursuing it again would never reach the request.
            "" if allocated.is_some_and(|size| size.nanos > sizes.capacity.nanos) => pinned(),
            "" if allocated.is_some() => spec,
            _ if condition_holds(&seen.claim, FILE_SYSTEM_RESIZE_PENDING) => return None,
            _ => spec,
        }
    };
    Some(target.clone())
}
