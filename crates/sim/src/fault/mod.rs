//! Faults: what can go wrong, planned from a seed, and counted.

pub mod kind;
pub mod table;

use std::collections::BTreeMap;
use std::fmt;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use kind::CodeOrd;
pub use kind::{Kind, Opportunity};

/// One thing that goes wrong: at the n-th time that an effect is tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub kind: Kind,
    pub effect: &'static str,
    /// Counted from 0.
    pub nth: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} @ {} # {}", self.kind.name(), self.effect, self.nth)
    }
}

impl Fault {
    /// Reads what is displayed: `lost answer @ create persistentvolume # 0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('@')?;
        let (effect, nth) = rest.split_once('#')?;
        let cell = |(known, row): &(Kind, &str)| known.name() == kind.trim() && *row == effect.trim();
        let (kind, effect) = table::cells().into_iter().find(cell)?;
        Some(Self { kind, effect, nth: nth.trim().parse().ok()? })
    }

    /// Several of them, with `;` between.
    pub fn parse_all(text: &str) -> Option<Vec<Self>> {
        text.split(';').filter(|part| !part.trim().is_empty()).map(Self::parse).collect()
    }
}

/// How often each fault struck each effect.
pub type Coverage = BTreeMap<(Kind, &'static str), u64>;

/// Most faults of one history.
const FAULTS_MAX: u64 = 6;
/// How many times an effect passes at most before its fault strikes.
const NTH_MAX: u64 = 4;

/// The faults of one history.
#[derive(Default)]
pub struct Plan {
    /// What is still to come, with how often its effect may still pass.
    armed: Vec<(Fault, u32)>,
    pub struck: Coverage,
    /// Every effect that was tried, for the table.
    pub seen: BTreeMap<(Opportunity, String), u64>,
    over: bool,
}

impl Plan {
    pub fn of(faults: &[Fault]) -> Self {
        let armed = faults.iter().map(|fault| (fault.clone(), fault.nth)).collect();
        Self { armed, ..Self::default() }
    }

    /// The fault for an effect that is being tried, if its time has come.
    pub fn strike(&mut self, opportunity: Opportunity, effect: &str) -> Option<Fault> {
        *self.seen.entry((opportunity, effect.to_owned())).or_default() += 1;
        if self.over {
            return None;
        }
        let mut due = None;
        for (at, (fault, left)) in self.armed.iter_mut().enumerate() {
            if fault.effect != effect || !fault.kind.fits(opportunity) {
                continue;
            }
            match left {
                0 if due.is_none() => due = Some(at),
                0 => {}
                left => *left -= 1,
            }
        }
        let (fault, _) = self.armed.remove(due?);
        *self.struck.entry((fault.kind, fault.effect)).or_default() += 1;
        Some(fault)
    }

    /// Nothing goes wrong from now on.
    pub fn end(&mut self) {
        self.over = true;
    }
}

/// Prime, so that seeds one after the other reach every cell, and a few of them already cells of all sorts.
const STRIDE: u64 = 389;
/// Of so many drawn faults, one strikes anywhere; the others where volumes are made, moved and taken away.
const ANYWHERE: u64 = 5;
/// In one history of so many, repeats of a call without an answer are refused: only that shows whether a refusal is taken
/// for the end of what the first call may have done.
const REFUSED_AGAIN: u64 = 3;
/// How many repeats are, at most: back-off grows with each, and people do something meanwhile.
const REFUSALS_MAX: u64 = 4;
/// A driver that has the volume answers a repeat of CreateVolume with OK: these would say that it has none.
const PROVES_ABSENCE: [Kind; 2] =
    [Kind::Code(CodeOrd::InvalidArgument), Kind::Code(CodeOrd::ResourceExhausted)];
/// The longest of the ranges that a drawn fault's number of passes comes from, as a power of two.
const PASSES_BITS: u64 = 5;

/// So many seeds one after the other plan every cell.
const ROUND: u64 = 1000;

/// The faults that a seed stands for. Seeds one after the other walk through all cells of the table, as many cells each
/// as it takes to reach all of them in one round; the other faults of each are drawn.
pub fn faults(seed: u64) -> Vec<Fault> {
    let mut random = ChaCha12Rng::seed_from_u64(seed ^ 0xfa17);
    let cells = &*table::CELLS;
    let mut walked = |cell: u64| {
        let (kind, effect) = cells[(cell % cells.len() as u64) as usize];
        let nth = (random.next_u64() % NTH_MAX).saturating_sub(NTH_MAX / 2) as u32;
        Fault { kind, effect, nth }
    };
    let each = (cells.len() as u64).div_ceil(ROUND);
    let first = seed.wrapping_mul(each);
    let mut faults: Vec<Fault> =
        (0..each).map(|step| walked(first.wrapping_add(step).wrapping_mul(STRIDE))).collect();
    let mut random = ChaCha12Rng::seed_from_u64(seed ^ 0x0fa1_7000);
    for _ in 0..random.next_u64() % FAULTS_MAX {
        let cells = if random.next_u64().is_multiple_of(ANYWHERE) { cells } else { &*table::OF_VOLUMES };
        let (kind, effect) = cells[(random.next_u64() % cells.len() as u64) as usize];
        faults.push(Fault { kind, effect, nth: passes(random.next_u64()) });
    }
    if random.next_u64().is_multiple_of(REFUSED_AGAIN) {
        faults.extend(refused_again(&mut random));
    }
    faults
}

/// A call that is done without an answer, and what its repeats are refused with. All wait for the same number of calls:
/// the one that is armed first strikes first.
fn refused_again(random: &mut ChaCha12Rng) -> Vec<Fault> {
    let mut drawn = |fits: &dyn Fn(&(Kind, &str)) -> bool| {
        let cells: Vec<_> = table::OF_VOLUMES.iter().filter(|cell| fits(cell)).collect();
        cells.get((random.next_u64() % cells.len().max(1) as u64) as usize).copied().copied()
    };
    let done = [Kind::CsiLostAnswer, Kind::CsiDoneButCode, Kind::CsiSlow];
    let first = drawn(&|(kind, _)| done.contains(kind));
    let repeat = drawn(&|(kind, effect)| {
        let lie = *effect == "CreateVolume" && PROVES_ABSENCE.contains(kind);
        matches!(kind, Kind::Code(_)) && !lie && first.is_some_and(|(_, first)| first == *effect)
    });
    let repeats = 1 + random.next_u64() % REFUSALS_MAX;
    let nth = passes(random.next_u64()).min(NTH_MAX as u32);
    let refusals = (0..repeats).filter_map(|_| repeat);
    first.into_iter().chain(refusals).map(|(kind, effect)| Fault { kind, effect, nth }).collect()
}

/// How often an effect passes before a drawn fault strikes it: often not at all, sometimes many times, because what
/// happens at the start of a program is not what happens later.
fn passes(draw: u64) -> u32 {
    if draw.is_multiple_of(2) {
        return 0;
    }
    let range = 1 << (1 + (draw >> 1) % PASSES_BITS);
    (1 + (draw >> 8) % range) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what `make sim` has to reach is at least planned, however many rows the table has.
    #[test]
    fn a_thousand_seeds_plan_every_cell() {
        let planned: std::collections::BTreeSet<(Kind, &str)> =
            (1..=1000).flat_map(faults).map(|fault| (fault.kind, fault.effect)).collect();
        let missing: Vec<_> = table::CELLS.iter().filter(|cell| !planned.contains(cell)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
