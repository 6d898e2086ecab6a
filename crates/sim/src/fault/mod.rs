//! Faults: what can go wrong, planned from a seed, and counted.

pub mod kind;
pub mod table;

use std::collections::BTreeMap;
use std::fmt;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

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

/// The faults that a seed stands for. Seeds one after the other walk through all cells of the table, from two places at
/// once, so that a thousand of them plan every cell; the other faults of each are drawn.
pub fn faults(seed: u64) -> Vec<Fault> {
    let mut random = ChaCha12Rng::seed_from_u64(seed ^ 0xfa17);
    let cells = table::cells();
    let mut fault = |cell: u64| {
        let (kind, effect) = cells[(cell % cells.len() as u64) as usize];
        let nth = (random.next_u64() % NTH_MAX).saturating_sub(NTH_MAX / 2) as u32;
        Fault { kind, effect, nth }
    };
    let first = seed.wrapping_mul(STRIDE);
    let mut faults = vec![fault(first), fault(first.wrapping_add(cells.len() as u64 / 2))];
    let mut random = ChaCha12Rng::seed_from_u64(seed ^ 0x0fa1_7000);
    for _ in 0..random.next_u64() % FAULTS_MAX {
        faults.push(fault(random.next_u64()));
    }
    faults
}
