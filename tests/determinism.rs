//! The whole chain on one thread and paused time: the same seed gives the same trace, another seed another
//! interleaving, and all of them the same end.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

use std::path::Path;

use bowline_sim::{Trace, story, world};

const SEEDS: std::ops::Range<u64> = 1..9;

fn journey(seed: u64) -> Trace {
    let end = |world: std::sync::Arc<bowline_sim::World>| async move {
        story::there_and_back(world.clone()).await;
        assert_eq!(world.machine.mounts(), [], "seed {seed}: mounts left");
        assert_eq!(world.machine.loops().len(), 0, "seed {seed}: loop devices left");
        let images = world.ports.host.disk.list(&Path::new(world::POOL).join("volumes")).await;
        assert_eq!(images.expect("pool"), Vec::<String>::new(), "seed {seed}: PROV-2");
    };
    bowline_sim::run(seed, end).expect("a runtime")
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [1, 2] {
        let (first, second) = (journey(seed), journey(seed));
        assert!(first.lines.len() > 40, "a journey has more effects than {}", first.lines.len());
        for (number, (a, b)) in first.lines.iter().zip(&second.lines).enumerate() {
            assert_eq!(a, b, "seed {seed}: the traces part at line {number}");
        }
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn other_seeds_give_other_interleavings_and_the_same_end() {
    let traces: Vec<Trace> = SEEDS.map(journey).collect();
    let mut orders: Vec<Vec<&str>> = traces.iter().map(Trace::order).collect();
    orders.sort();
    orders.dedup();
    assert!(orders.len() > SEEDS.count() / 2, "only {} interleavings", orders.len());
}
