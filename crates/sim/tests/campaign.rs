//! Whole histories from seeds.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use bowline_sim::fault::faults;
use bowline_sim::history::{history, with_faults};

/// Goal: what the seed says is all that counts; a failing seed can be looked at again.
#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [1, 2] {
        let (one, other) = (history(seed).expect("a runtime"), history(seed).expect("a runtime"));
        for (at, (line, same)) in one.trace.iter().zip(&other.trace).enumerate() {
            assert_eq!(line, same, "seed {seed}, line {at}");
        }
        assert_eq!((one.trace.len(), one.violations), (other.trace.len(), other.violations));
    }
}

/// Goal: without faults nothing is broken and nothing is left.
#[test]
fn a_calm_history_leaves_nothing() {
    let calm = with_faults(7, &[]).expect("a runtime");
    assert_eq!(calm.violations, Vec::<String>::new(), "{}", calm.trace.join("\n"));
    assert!(calm.seen.keys().any(|(_, effect)| effect == "NodeStageVolume"), "a pod had a volume");
}

/// Goal: a history with faults is another one than without.
#[test]
fn faults_strike() {
    let struck = (1..4).map(|seed| with_faults(seed, &faults(seed)).expect("a runtime").struck.len());
    assert!(struck.sum::<usize>() > 0);
}
