//! A small closed world on the real decisions: claims and volumes in arbitrary states, keys in arbitrary order, each
//! write possibly the last before a crash (every step starts from the objects alone), and stale sight.

use std::collections::BTreeSet;

use bowline_api::volume::{READ_ONLY_MANY, READ_WRITE_ONCE};
use bowline_api::{build, keys, volume as api};
use bowline_machinery::Step;
use proptest::prelude::*;

use super::super::act::{Write, write_for};
use super::super::decide::decide;
use super::super::decide::matching::{has_modes, large_enough};
use super::super::model::Observed;
use super::*;

/// The API server of the model: writes with an old version are refused, as by a resourceVersion.
#[derive(Debug, Clone)]
struct World {
    claims: Vec<Arc<PersistentVolumeClaim>>,
    volumes: Vec<Arc<PersistentVolume>>,
}

impl World {
    fn see_claim(&self, index: usize) -> Observed {
        let claim = self.claims[index].clone();
        let class = build::class("fast", DRIVER).build();
        let named = self.volumes.iter().find(|v| v.name() == api::claim_volume(&claim)).cloned();
        let mut seen = Claim((*claim).clone()).seen().with_class(Some(class));
        seen.candidates = if api::claim_volume(&claim).is_empty() { self.volumes.clone() } else { vec![] };
        seen.named = named;
        Observed::Claim(seen)
    }

    fn see_volume(&self, index: usize) -> Observed {
        let volume = self.volumes[index].clone();
        let uid = api::claim_ref(&volume).and_then(|r| r.uid.clone()).unwrap_or_default();
        let claim = self.claims.iter().find(|c| c.uid() == uid).cloned();
        Observed::Volume(VolumeSeen { volume, claim })
    }

    fn see(&self, key: usize) -> Observed {
        let key = key % (self.claims.len() + self.volumes.len());
        if key < self.claims.len() { self.see_claim(key) } else { self.see_volume(key - self.claims.len()) }
    }

    /// Applies a write that was decided on `then`, unless the object has changed since.
    fn apply(&mut self, write: Write, then: &World) {
        match write {
            Write::Claim(new) | Write::ClaimStatus(new) => {
                replace(&mut self.claims, &then.claims, new);
            }
            Write::Volume(new) | Write::VolumeStatus(new) => {
                replace(&mut self.volumes, &then.volumes, new);
            }
        }
    }

    /// Pairs that are complete on both sides.
    fn pairs(&self) -> BTreeSet<(String, String)> {
        let of = |claim: &Arc<PersistentVolumeClaim>| {
            let volume = self.volumes.iter().find(|v| v.name() == api::claim_volume(claim))?;
            let ours = api::claim_ref(volume)?.uid.as_deref() == Some(claim.uid());
            (api::bound(claim) && ours).then(|| (claim.uid().to_owned(), volume.name().to_owned()))
        };
        self.claims.iter().filter_map(of).collect()
    }
}

fn replace<K: Meta + PartialEq>(now: &mut [Arc<K>], then: &[Arc<K>], new: K) {
    let same = |o: &&Arc<K>| o.name() == new.name();
    let current = then.iter().find(same).cloned();
    if let Some(slot) = now.iter_mut().find(|o| o.name() == new.name())
        && current.as_ref() == Some(slot)
    {
        *slot = Arc::new(new);
    }
}

fn any_claim(index: usize) -> impl Strategy<Value = Claim> {
    let shape = (0..3usize, any::<bool>(), any::<bool>(), 0..5usize, any::<bool>());
    shape.prop_map(move |(size, block, many, naming, deleting)| {
        let mut new = claim(&format!("c{index}")).size(["1Gi", "2Gi", "3Gi"][size]);
        new = if block { new.block() } else { new };
        new = if many { new.modes(&[READ_WRITE_ONCE, READ_ONLY_MANY]) } else { new };
        new = if naming < 2 { new.naming(&format!("v{naming}")) } else { new };
        if deleting && naming == 4 { new.deleting() } else { new }
    })
}

fn any_volume(index: usize) -> impl Strategy<Value = Volume> {
    let shape = (0..3usize, any::<bool>(), any::<bool>(), 0..6usize, 0..3usize, any::<bool>());
    shape.prop_map(move |(size, block, many, reserved, phase, provisioned)| {
        let mut new = volume(&format!("v{index}")).size(["1Gi", "2Gi", "3Gi"][size]);
        new = if block { new.block() } else { new };
        new = if many { new.modes(&[READ_WRITE_ONCE, READ_ONLY_MANY]) } else { new };
        new = match reserved {
            0 => new.reserved_as("c0", ""),
            1 => new.reserved_for("c1"),
            2 => new.reserved_for("gone"),
            _ => new,
        };
        new = new.phase([api::PENDING, api::AVAILABLE, api::BOUND][phase]);
        if provisioned { new.annotated(keys::PROVISIONED_BY, DRIVER) } else { new }
    })
}

fn any_world() -> impl Strategy<Value = World> {
    let claims = (any_claim(0), any_claim(1), any_claim(2));
    let volumes = (any_volume(0), any_volume(1), any_volume(2));
    (claims, volumes).prop_map(|(c, v)| World {
        claims: [c.0, c.1, c.2].map(|c| Arc::new(c.0)).into(),
        volumes: [v.0, v.1, v.2].map(|v| Arc::new(v.0)).into(),
    })
}

/// Whether this pair was linked by a person on both sides, or fits.
fn fits_or_was_meant(begin: &World, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let named =
        |c: &&Arc<PersistentVolumeClaim>| c.uid() == claim.uid() && api::claim_volume(c) == volume.name();
    let reserved = |v: &&Arc<PersistentVolume>| {
        v.name() == volume.name() && api::claim_ref(v).is_some_and(|r| api::refers_to(r, claim))
    };
    let linked_by_hand = begin.claims.iter().any(|c| named(&c)) && begin.volumes.iter().any(|v| reserved(&v));
    let mode = api::claim_mode(claim) == api::volume_mode(volume);
    linked_by_hand || (mode && large_enough(claim, volume) && has_modes(claim, volume))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Each step decides on a sight that may be a few steps old, as caches and parallel workers make it.
    #[test]
    fn pairs_never_change_partners_and_the_world_settles(
        begin in any_world(),
        steps in prop::collection::vec((0..6usize, 0..3usize), 40..80),
    ) {
        let mut world = begin.clone();
        let mut history = vec![world.clone()];
        for (key, age) in steps {
            let then = history[history.len().saturating_sub(1 + age)].clone();
            let seen = then.see(key);
            if let Step::Do(action) = decide(&seen) {
                let write = write_for(&action, &seen);
                prop_assert!(write.is_some(), "{action:?} does not fit {seen:?}");
                let before = world.pairs();
                world.apply(write.unwrap(), &then);
                let after = world.pairs();
                prop_assert!(before.is_subset(&after), "BIND-1: {before:?} became {after:?} by {action:?}");
                let volumes: BTreeSet<_> = after.iter().map(|(_, volume)| volume).collect();
                prop_assert_eq!(volumes.len(), after.len(), "BIND-1: one volume, two claims");
            }
            history.push(world.clone());
        }
        settle(&mut world)?;
        for (uid, name) in world.pairs() {
            let claim = world.claims.iter().find(|c| c.uid() == uid).unwrap();
            let volume = world.volumes.iter().find(|v| v.name() == name).unwrap();
            prop_assert!(fits_or_was_meant(&begin, claim, volume), "BIND-2: {uid} got {name}");
            prop_assert_eq!(api::volume_phase(volume), api::BOUND);
            prop_assert_eq!(api::claim_phase(claim), api::BOUND);
        }
    }

    /// BIND-1: a volume is reserved only while it names nobody or this very claim.
    #[test]
    fn only_an_unclaimed_volume_is_reserved(world in any_world(), key in 0..3usize) {
        let seen = world.see_claim(key);
        if let (Step::Do(Action::Reserve { volume }), Observed::Claim(seen)) = (decide(&seen), &seen) {
            let volume = seen.volume(&volume).unwrap();
            let free = api::claim_ref(volume).is_none_or(|reference| api::refers_to(reference, &seen.claim));
            prop_assert!(free, "{volume:?}");
        }
    }
}

/// Runs every key on fresh sight until nothing is left to do.
fn settle(world: &mut World) -> Result<(), TestCaseError> {
    for _ in 0..64 {
        let mut quiet = true;
        for key in 0..world.claims.len() + world.volumes.len() {
            let then = world.clone();
            let seen = then.see(key);
            if let Step::Do(action) = decide(&seen) {
                quiet = false;
                let write = write_for(&action, &seen);
                prop_assert!(write.is_some(), "{action:?} does not fit {seen:?}");
                world.apply(write.unwrap(), &then);
            }
        }
        if quiet {
            return Ok(());
        }
    }
    Err(TestCaseError::fail("the world did not settle"))
}
