//! Whether there is room for a write: the quota of the objects, and the disk under them.

use bowline_api::keys::NODE_LEASE_NAMESPACE;

use super::backend::Space;
use super::errors::Trouble;

/// Objects on their way out may still grow a little beyond the quota, or nothing that has a finalizer could be
/// deleted in a full store: one part in this many. Updates that grow a little have half of it: without phases and
/// conditions nothing is taken down either.
const QUOTA_RESERVE: u64 = 10;
/// An update may grow an object by this much on a disk that is nearly full: phases, conditions, the states of containers.
/// Without them volumes could not be taken down, and the disk would stay full.
const STATUS_GROWTH: u64 = 16 << 10;
/// Down to which part of the space that is to stay free a write goes on, by what it does. Heartbeats never end, so they
/// stop before what teardown needs; the last part is the store's.
const KEPT_BY_HEARTBEAT: u64 = 8;
const KEPT_BY_UPDATE: u64 = 16;
const KEPT_BY_DELETE: u64 = 256;
/// The part of the spare that only deletes of what takes disk can have.
const SPARE_FOR_VOLUMES: u64 = 2 << 20;
/// Kinds whose end gives disk back, once others have written a little to it.
const TAKE_DISK: [&str; 6] = [
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "volumeattachments.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshots.snapshot.storage.k8s.io",
];
/// In the namespace of nodes. Others elect leaders, and without leaders nothing is taken down.
const LEASES: &str = "leases.coordination.k8s.io";

/// The room there is while one batch is put together.
#[derive(Debug, Clone)]
pub struct Room {
    /// 0 is no limit.
    pub quota: u64,
    pub used: u64,
    pub space: Option<Space>,
    /// Bytes of the disk that are to stay free; 0 looks at no disk.
    pub free_min: u64,
    /// What the backend has to do before the batch is written.
    pub wanted: Wanted,
}

/// What a backend is asked to give up for the deletes of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of the spare that were counted on.
    pub spare: u64,
    /// Something that takes disk is being deleted, so others need a little room, too.
    pub for_others: bool,
}

/// What a write is about, as far as room goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The write brings the end of the object nearer, so it helps to make room.
    Leaving {
        takes_disk: bool,
    },
    Heartbeat,
    Other,
}

impl Purpose {
    pub fn of(resource: &str, namespace: &str, leaving: bool) -> Self {
        match leaving {
            true => Self::Leaving { takes_disk: TAKE_DISK.contains(&resource) },
            false if resource == LEASES && namespace == NODE_LEASE_NAMESPACE => Self::Heartbeat,
            false => Self::Other,
        }
    }
}

/// What a write does to the size of the store.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    pub before: u64,
    /// 0 for a deletion.
    pub after: u64,
    pub purpose: Purpose,
}

impl Growth {
    /// Bytes that must be free on the disk before this write.
    fn kept(self, free_min: u64) -> u64 {
        match self.purpose {
            // A delete needs no more than its place in the journal.
            Purpose::Leaving { .. } => (free_min / KEPT_BY_DELETE).max(self.after),
            Purpose::Heartbeat if self.is_small() => free_min / KEPT_BY_HEARTBEAT,
            Purpose::Other if self.is_small() => free_min / KEPT_BY_UPDATE,
            Purpose::Heartbeat | Purpose::Other => free_min,
        }
    }

    /// An update that adds what controllers write to an object.
    fn is_small(self) -> bool {
        self.before > 0 && self.after.saturating_sub(self.before) <= STATUS_GROWTH
    }

    /// Bytes of the spare that this write may count on.
    fn spare(self, space: &Space) -> u64 {
        match self.purpose {
            Purpose::Leaving { takes_disk: true } => space.spare,
            Purpose::Leaving { takes_disk: false } => space.spare.saturating_sub(SPARE_FOR_VOLUMES),
            Purpose::Heartbeat | Purpose::Other => 0,
        }
    }
}

impl Room {
    /// Counts a write that fits; refuses one that does not.
    pub fn admit(&mut self, growth: Growth) -> Result<(), Trouble> {
        let Growth { before, after, purpose } = growth;
        let used = self.used - before.min(self.used) + after;
        let reserve = self.quota / QUOTA_RESERVE;
        let limit = match purpose {
            Purpose::Leaving { .. } => self.quota + reserve,
            Purpose::Heartbeat | Purpose::Other if growth.is_small() => self.quota + reserve / 2,
            Purpose::Heartbeat | Purpose::Other => self.quota,
        };
        if self.quota > 0 && after > before && used > limit {
            return Err(self.over_quota(after - before));
        }
        if let Some(space) = &mut self.space {
            let kept = growth.kept(self.free_min);
            let short = kept.saturating_sub(space.free);
            if short > growth.spare(space) {
                return Err(disk_full(space, kept));
            }
            self.wanted.spare += short;
            space.spare -= short;
            // Whatever it does to the store, the journal takes all of it first.
            space.free = (space.free + short).saturating_sub(after);
        }
        self.used = used;
        self.wanted.for_others |= purpose == Purpose::Leaving { takes_disk: true };
        Ok(())
    }

    fn over_quota(&self, adds: u64) -> Trouble {
        Trouble::Full(format!(
            "the store has reached its quota: its objects take {} of {} bytes and this write would add {adds}. Delete objects, or start the server with a larger --quota-backend-bytes; reads and deletes go on",
            self.used, self.quota
        ))
    }
}

fn disk_full(space: &Space, kept: u64) -> Trouble {
    Trouble::Full(format!(
        "the disk of the store is nearly full: {} bytes are free in {} and {kept} must stay free for this write. Delete volumes or make room on that disk; reads, deletes and updates that do not grow go on",
        space.free,
        space.dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(quota: u64, used: u64, free: u64) -> Room {
        with_spare(quota, used, free, 0)
    }

    fn with_spare(quota: u64, used: u64, free: u64, spare: u64) -> Room {
        let space = Some(Space { dir: "/data".into(), free, spare });
        Room { quota, used, space, free_min: 3200, wanted: Wanted::default() }
    }

    const LEAVING: Purpose = Purpose::Leaving { takes_disk: false };

    #[test]
    fn what_fits() {
        let create = Growth { before: 0, after: 30, purpose: Purpose::Other };
        let grow = Growth { before: 10, after: 30, purpose: Purpose::Other };
        let grow_much = Growth { before: 10, after: 11 + STATUS_GROWTH, purpose: Purpose::Other };
        let shrink = Growth { before: 30, after: 10, purpose: Purpose::Other };
        let same = Growth { before: 30, after: 30, purpose: Purpose::Other };
        let beat = Growth { before: 30, after: 30, purpose: Purpose::Heartbeat };
        let first_beat = Growth { before: 0, after: 30, purpose: Purpose::Heartbeat };
        let leaving = Growth { before: 10, after: 30, purpose: LEAVING };
        let delete = Growth { before: 30, after: 0, purpose: LEAVING };
        // Quota, used, free; then what is admitted.
        let table = [
            ((1000, 500, 9000), grow, true),
            ((1000, 980, 9000), grow, true),
            ((1000, 1030, 9000), grow, true),
            ((1000, 1031, 9000), grow, false),
            ((90_000, 80_000, 9000), grow_much, false),
            ((1000, 970, 9000), create, true),
            ((1000, 971, 9000), create, false),
            ((0, 5000, 9000), grow, true),
            ((1000, 2000, 9000), shrink, true),
            ((1000, 2000, 9000), same, true),
            ((1000, 1000, 9000), leaving, true),
            ((1000, 1081, 9000), leaving, false),
            ((1000, 5000, 9000), delete, true),
            // Only creates and large growth need all of the space that is to stay free.
            ((1000, 10, 3200), create, true),
            ((1000, 10, 3199), create, false),
            ((90_000, 10, 3200), grow_much, true),
            ((90_000, 10, 3199), grow_much, false),
            ((1000, 10, 3199), first_beat, false),
            ((1000, 30, 400), beat, true),
            ((1000, 30, 399), beat, false),
            ((1000, 10, 200), grow, true),
            ((1000, 10, 199), grow, false),
            ((1000, 30, 200), same, true),
            ((1000, 30, 199), same, false),
            ((1000, 30, 200), shrink, true),
            ((1000, 30, 199), shrink, false),
            ((1000, 10, 30), leaving, true),
            ((1000, 10, 29), leaving, false),
            ((1000, 30, 12), delete, true),
            ((1000, 30, 11), delete, false),
        ];
        for ((quota, used, free), growth, fits) in table {
            let mut room = room(quota, used, free);
            assert_eq!(room.admit(growth).is_ok(), fits, "{quota} {used} {free} {growth:?}");
            let counted = if fits { used - growth.before + growth.after } else { used };
            assert_eq!(room.used, counted);
        }
    }

    /// Without the leases of leader election no controller takes anything down.
    #[test]
    fn only_leases_of_nodes_are_heartbeats() {
        let leases = "leases.coordination.k8s.io";
        let table = [
            (leases, "kube-node-lease", false, Purpose::Heartbeat),
            (leases, "kube-system", false, Purpose::Other),
            (leases, "default", false, Purpose::Other),
            ("configmaps", "kube-node-lease", false, Purpose::Other),
            (leases, "kube-node-lease", true, LEAVING),
        ];
        for (resource, namespace, leaving, expected) in table {
            assert_eq!(Purpose::of(resource, namespace, leaving), expected, "{resource} {namespace}");
        }
    }

    #[test]
    fn deletes_count_on_the_spare_and_those_of_what_takes_disk_on_all_of_it() {
        const KEPT: u64 = 12;
        let other = Growth { before: 30, after: 0, purpose: LEAVING };
        let pod = Growth { purpose: Purpose::of("pods", "default", true), ..other };
        let update = Growth { before: 30, after: 30, purpose: Purpose::Other };
        // Free, spare; then how much of the spare is wanted, if the write is admitted.
        let table = [
            (other, KEPT, 0, Some(0)),
            (other, 0, SPARE_FOR_VOLUMES + KEPT, Some(KEPT)),
            (other, 0, SPARE_FOR_VOLUMES + KEPT - 1, None),
            (pod, KEPT, 0, Some(0)),
            (pod, 2, KEPT, Some(KEPT - 2)),
            (pod, 0, KEPT, Some(KEPT)),
            (pod, 0, KEPT - 1, None),
            (update, 0, 4 << 20, None),
        ];
        for (growth, free, spare, wanted) in table {
            let mut room = with_spare(0, 100, free, spare);
            let admitted = room.admit(growth).is_ok().then_some(room.wanted.spare);
            assert_eq!(admitted, wanted, "{growth:?} {free} {spare}");
            assert_eq!(room.wanted.for_others, wanted.is_some() && growth.purpose == pod.purpose);
        }
        // What one delete of a batch has taken, the next one has, too.
        let mut room = with_spare(0, 100, 0, KEPT);
        assert!(room.admit(pod).is_ok() && room.admit(pod).is_ok());
        assert_eq!(room.wanted, Wanted { spare: KEPT, for_others: true });
    }

    #[test]
    fn writes_of_one_batch_share_the_disk() {
        let mut room = room(0, 0, 3250);
        let create = Growth { before: 0, after: 30, purpose: Purpose::Other };
        let admitted = (0..5).filter(|_| room.admit(create).is_ok()).count();
        assert_eq!(admitted, 2);
    }

    #[test]
    fn a_refusal_names_the_figures_and_the_remedy() {
        let grow = Growth { before: 0, after: 30, purpose: Purpose::Other };
        assert_eq!(
            room(1000, 990, 9000).admit(grow).unwrap_err().to_string(),
            "the store has reached its quota: its objects take 990 of 1000 bytes and this write would add 30. Delete objects, or start the server with a larger --quota-backend-bytes; reads and deletes go on"
        );
        assert_eq!(
            room(1000, 0, 7).admit(grow).unwrap_err().to_string(),
            "the disk of the store is nearly full: 7 bytes are free in /data and 3200 must stay free for this write. Delete volumes or make room on that disk; reads, deletes and updates that do not grow go on"
        );
    }
}
