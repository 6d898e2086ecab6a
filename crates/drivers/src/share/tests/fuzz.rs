//! Arbitrary requests to every RPC: the driver answers each and touches nothing but its pool and the given paths.

use super::world::World;
use crate::local::tests::fuzz::{Subject, storms};

#[tokio::test(start_paused = true)]
async fn arbitrary_requests() {
    let start = async || {
        let world = World::new().await;
        Subject { channel: world.channel(), machine: world.machine, host: world.host }
    };
    storms(8, start).await;
}
