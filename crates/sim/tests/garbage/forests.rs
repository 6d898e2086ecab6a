//! Any forest of owners, any deletions: the end is what a model says, whatever crashed on the way.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;

use bowline_sim::stage::Cut;

use crate::world::{MAPS, World};

/// Each object names earlier ones as its owners.
#[derive(Debug, Clone)]
struct Story {
    owners: Vec<BTreeSet<usize>>,
    blocking: Vec<bool>,
    deletions: Vec<(usize, &'static str)>,
}

fn stories() -> impl Strategy<Value = Story> {
    let size = 2usize..9;
    size.prop_flat_map(|size| {
        let owners: Vec<_> = (0..size).map(|own| prop::collection::btree_set(0..own.max(1), 0..3)).collect();
        let policy = prop::sample::select(vec!["Background", "Foreground", "Orphan"]);
        let deletions = prop::collection::vec((0..size, policy), 1..4);
        (owners, prop::collection::vec(any::<bool>(), size), deletions)
    })
    .prop_map(|(mut owners, blocking, deletions)| {
        // The first has nobody before it.
        owners[0].clear();
        Story { owners, blocking, deletions }
    })
}

fn name(number: usize) -> String {
    format!("n{number}")
}

/// What is left of a forest when each deletion had its whole effect before the next.
fn model(story: &Story) -> BTreeMap<String, Vec<String>> {
    let mut left: BTreeMap<usize, BTreeSet<usize>> = story.owners.iter().cloned().enumerate().collect();
    for (target, policy) in &story.deletions {
        if left.remove(target).is_none() {
            continue;
        }
        if *policy == "Orphan" {
            left.values_mut().for_each(|owners| {
                owners.remove(target);
            });
            continue;
        }
        loop {
            let alive: BTreeSet<usize> = left.keys().copied().collect();
            let before = left.len();
            left.retain(|_, owners| owners.is_empty() || !owners.is_disjoint(&alive));
            if left.len() == before {
                left.values_mut().for_each(|owners| owners.retain(|owner| alive.contains(owner)));
                break;
            }
        }
    }
    let named = |(number, owners): (usize, BTreeSet<usize>)| {
        let mut owners: Vec<String> = owners.into_iter().map(name).collect();
        owners.sort();
        (name(number), owners)
    };
    left.into_iter().map(named).collect()
}

/// Plays a story with a process that ends at a cut, if there is one, and another that finishes. The answer is the
/// number of writes of the first.
async fn play(story: &Story, cut: Option<Cut>) -> usize {
    let world = World::new(11).await;
    let mut references: Vec<Value> = Vec::new();
    for (number, owners) in story.owners.iter().enumerate() {
        let owners: Vec<Value> = owners.iter().map(|owner| references[*owner].clone()).collect();
        let mut reference = world.make(MAPS, &name(number), &owners).await;
        reference["blockOwnerDeletion"] = story.blocking[number].into();
        references.push(reference);
    }
    let mut process = world.start_with(cut, &[]);
    let mut writes = 0;
    for step in 1..=story.deletions.len() {
        let (target, policy) = story.deletions[step - 1];
        let target = format!("{MAPS}/{}", name(target));
        if world.at(&target).await.is_some() {
            world.remove(&target, policy).await;
        }
        let want = model(&Story { deletions: story.deletions[..step].to_vec(), ..story.clone() });
        if cut.is_some() {
            world.settle().await;
            writes += process.writes();
            process.crash().await;
            process = world.start();
        }
        world.until(&format!("{story:?} ends in {want:?}"), async || world.owners(MAPS).await == want).await;
        world.settle().await;
        assert_eq!(world.owners(MAPS).await, want, "nothing more goes: {story:?}");
    }
    writes += process.writes();
    process.end().await;
    writes
}

fn on_paused_time<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(story)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn ends_as_the_model_says(story in stories()) {
        on_paused_time(play(&story, None));
    }
}

#[test]
fn ends_the_same_whatever_crashes() {
    let owners = [vec![], vec![0], vec![0, 1], vec![1], vec![3], vec![]];
    let owners: Vec<BTreeSet<usize>> = owners.into_iter().map(|all| all.into_iter().collect()).collect();
    for policy in ["Background", "Foreground", "Orphan"] {
        let deletions = vec![(0, policy), (1, "Foreground"), (3, "Orphan")];
        let story = Story { owners: owners.clone(), blocking: vec![true; owners.len()], deletions };
        let writes = on_paused_time(play(&story, None));
        assert!(writes > 2, "{policy}: {writes}");
        for at in 0..writes {
            for landed in [false, true] {
                on_paused_time(play(&story, Some(Cut { at, landed })));
            }
        }
    }
}
