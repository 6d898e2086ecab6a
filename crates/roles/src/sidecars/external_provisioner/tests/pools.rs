//! Which workers a key may use.

use bowline_machinery::{Pool, Role};

use super::super::model::Key;
use super::super::role::Provisioner;
use crate::sidecars::testing::{context, sidecar};

/// B19: a driver that is slow to delete must not hold up new volumes, and the other way round.
#[tokio::test]
async fn creating_and_deleting_do_not_share_workers() {
    let context = context();
    let sidecar = sidecar(&context.ports.host);
    let role = Provisioner::start(context, (sidecar, crate::flags(&[]).unwrap())).await.unwrap();
    let table = [
        ("a claim", Key::Claim("uid".into()), "claims"),
        ("a volume", Key::Volume("pv".into()), "volumes"),
        ("calls that earlier processes stored", Key::Intents, "claims"),
    ];
    for (what, key, pool) in table {
        assert_eq!(role.pool(&key), Pool::new(pool, Provisioner::WORKERS), "{what}");
    }
}
