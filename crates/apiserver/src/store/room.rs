//! Whether there is room for a write: the quota of the objects, and the disk under them.

use super::backend::Space;
use super::errors::Trouble;

/// Objects on their way out may still grow a little beyond the quota, or nothing that has a finalizer could be
/// deleted in a full store: one part in this many.
const QUOTA_RESERVE: u64 = 10;
/// An update may grow an object by this much on a disk that is nearly full: phases, conditions, the states of containers.
/// Without them volumes could not be taken down, and the disk would stay full.
const STATUS_GROWTH: u64 = 16 << 10;
/// Down to which part of the space that is to stay free a write goes on, by what it does. The last one is the store's.
const KEPT_BY_STATUS: u64 = 8;
const KEPT_BY_UPDATE: u64 = 16;
const KEPT_BY_DELETE: u64 = 32;

/// The room there is while one batch is put together.
#[derive(Debug, Clone)]
pub struct Room {
    /// 0 is no limit.
    pub quota: u64,
    pub used: u64,
    pub space: Option<Space>,
    /// Bytes of the disk that are to stay free; 0 looks at no disk.
    pub free_min: u64,
    /// Whether a write that helps to make room was admitted.
    pub leaving: bool,
}

/// What a write does to the size of the store.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    pub before: u64,
    /// 0 for a deletion.
    pub after: u64,
    /// The object is being deleted, so the write helps to make room.
    pub leaving: bool,
}

impl Growth {
    /// Bytes that must be free on the disk before this write.
    fn kept(self, free_min: u64) -> u64 {
        let Self { before, after, leaving } = self;
        match after.saturating_sub(before) {
            _ if leaving => free_min / KEPT_BY_DELETE,
            0 => free_min / KEPT_BY_UPDATE,
            more if before > 0 && more <= STATUS_GROWTH => free_min / KEPT_BY_STATUS,
            _ => free_min,
        }
    }
}

impl Room {
    /// Counts a write that fits; refuses one that does not.
    pub fn admit(&mut self, growth: Growth) -> Result<(), Trouble> {
        let Growth { before, after, leaving } = growth;
        let used = self.used - before.min(self.used) + after;
        let limit = if leaving { self.quota + self.quota / QUOTA_RESERVE } else { self.quota };
        if self.quota > 0 && after > before && used > limit {
            return Err(self.over_quota(after - before));
        }
        if let Some(space) = &mut self.space {
            let kept = growth.kept(self.free_min);
            if space.free < kept {
                return Err(disk_full(space, kept));
            }
            // Whatever it does to the store, the journal takes all of it first.
            space.free = space.free.saturating_sub(after);
        }
        self.used = used;
        self.leaving |= leaving;
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
        let space = Some(Space { dir: "/data".into(), free });
        Room { quota, used, space, free_min: 3200, leaving: false }
    }

    #[test]
    fn what_fits() {
        let create = Growth { before: 0, after: 30, leaving: false };
        let grow = Growth { before: 10, after: 30, leaving: false };
        let grow_much = Growth { before: 10, after: 11 + STATUS_GROWTH, leaving: false };
        let shrink = Growth { before: 30, after: 10, leaving: false };
        let same = Growth { before: 30, after: 30, leaving: false };
        let leaving = Growth { before: 10, after: 30, leaving: true };
        let delete = Growth { before: 30, after: 0, leaving: true };
        // Quota, used, free; then what is admitted.
        let table = [
            ((1000, 500, 9000), grow, true),
            ((1000, 980, 9000), grow, true),
            ((1000, 981, 9000), grow, false),
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
            ((1000, 10, 400), grow, true),
            ((1000, 10, 399), grow, false),
            ((1000, 30, 200), same, true),
            ((1000, 30, 199), same, false),
            ((1000, 30, 200), shrink, true),
            ((1000, 30, 199), shrink, false),
            ((1000, 10, 100), leaving, true),
            ((1000, 10, 99), leaving, false),
            ((1000, 30, 100), delete, true),
            ((1000, 30, 99), delete, false),
        ];
        for ((quota, used, free), growth, fits) in table {
            let mut room = room(quota, used, free);
            assert_eq!(room.admit(growth).is_ok(), fits, "{quota} {used} {free} {growth:?}");
            let counted = if fits { used - growth.before + growth.after } else { used };
            assert_eq!(room.used, counted);
        }
    }

    #[test]
    fn writes_of_one_batch_share_the_disk() {
        let mut room = room(0, 0, 3250);
        let create = Growth { before: 0, after: 30, leaving: false };
        let admitted = (0..5).filter(|_| room.admit(create).is_ok()).count();
        assert_eq!(admitted, 2);
    }

    #[test]
    fn a_refusal_names_the_figures_and_the_remedy() {
        let grow = Growth { before: 0, after: 30, leaving: false };
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
