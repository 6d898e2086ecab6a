//! The deterministic world: the whole chain, unchanged, on one thread of paused time from one seed.
//!
//! `run` gives a story a fresh world and returns its trace: every effect of every component with its virtual time.
//! The same seed gives the same trace; another seed gives other delays and thereby another interleaving.

pub mod campaign;
pub mod cluster;
pub mod fault;
pub mod history;
pub mod jitter;
pub mod line;
mod machine;
pub mod oracle;
mod prepared;
pub mod process;
mod servers;
pub mod shrink;
pub mod stage;
pub mod story;
pub mod trace;
mod upset;
pub mod workload;
pub mod world;

pub use trace::Trace;
pub use world::World;

/// Runs a story from a seed.
pub fn run<F, Fut>(seed: u64, story: F) -> std::io::Result<Trace>
where
    F: FnOnce(std::sync::Arc<World>) -> Fut,
    Fut: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        let world = std::sync::Arc::new(World::start(seed).await);
        story(world.clone()).await;
        world.trace().await
    }))
}
