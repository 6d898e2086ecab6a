//! Arbitrary requests to every RPC: the driver answers each, never panics, and touches nothing but its pool and
//! the paths it was given.
//!
//! Each seed is one machine and one random sequence of calls. `FUZZ_SEEDS=5000 cargo test -p bowline-drivers fuzz`
//! searches longer; a failure names its seed.

mod message;
mod raw;
mod rpcs;

use std::path::Path;

use bowline_proto::csi::v1 as csi;
use message::Dice;
use tonic::Code;

use super::world::{STAGING, TARGETS, World};

const SEEDS: u64 = 60;
const CALLS: u64 = 150;

/// Files that no request may change, each where a confused path could lead.
const BYSTANDERS: [&str; 5] =
    ["/etc/passwd", "/var/lib/other/data", "/var/lib/pods-of-others/x", "/var/lib/secret", "/tmp/x"];

async fn bystanders(world: &World) {
    for path in BYSTANDERS {
        let path = Path::new(path);
        let parent = path.parent().expect("below the root");
        world.host.disk.create_dir_all(parent, 0o755).await.unwrap();
        world.host.disk.write_atomic(path, b"not yours", 0o600).await.unwrap();
    }
}

/// What must hold whatever was asked.
async fn assert_sound(world: &World, given: &[String], seed: u64) {
    for path in BYSTANDERS {
        // A mount may hide it; the file below must be as it was.
        let below = world.machine.files().get(Path::new(path)).cloned();
        assert_eq!(below.as_deref(), Some(b"not yours".as_slice()), "seed {seed}: {path} was changed");
    }
    let allowed = ["/var/lib/pool", STAGING, TARGETS, "/var/lib/csi"];
    for path in world.machine.files().keys() {
        let inside = allowed.iter().any(|root| path.to_string_lossy().starts_with(root));
        let bystander = BYSTANDERS.iter().any(|other| Path::new(other) == path);
        let named = given.iter().any(|text| same_place(text, path));
        assert!(inside || bystander || named, "seed {seed}: {} appeared", path.display());
    }
    let probe = world.identity().probe(csi::ProbeRequest {}).await;
    assert!(probe.is_ok(), "seed {seed}: the driver still serves");
}

/// A request may spell a path with repeated slashes.
fn same_place(text: &str, path: &Path) -> bool {
    Path::new(text).components().eq(path.components())
}

async fn storm(seed: u64) -> u64 {
    let world = World::new().await;
    bystanders(&world).await;
    let mut dice = Dice::new(seed);
    let mut answered = 0;
    for _ in 0..CALLS {
        let rpc = dice.pick(&rpcs::ALL);
        let body = message::random(&mut dice, rpc.fields);
        let answer = raw::call(world.channel(), rpc, body).await;
        if let Err(status) = &answer {
            let ended = status.message().contains("ended without an answer");
            assert!(!ended, "seed {seed}: {} panicked", rpc.path);
            let transport = matches!(status.code(), Code::Unknown | Code::Cancelled | Code::Unavailable);
            assert!(!transport, "seed {seed}: {} broke the connection: {status}", rpc.path);
        }
        answered += u64::from(answer.is_ok());
    }
    assert_sound(&world, &dice.given, seed).await;
    answered
}

#[tokio::test(start_paused = true)]
async fn arbitrary_requests() {
    let seeds = std::env::var("FUZZ_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    let mut answered = 0;
    for seed in 0..seeds {
        answered += storm(seed).await;
    }
    // A storm that is refused at the door tests nothing behind it.
    assert!(answered * 8 > seeds * CALLS, "only {answered} of {} calls were accepted", seeds * CALLS);
}
