//! Which workers a volume may use.

use std::path::Path;

use bowline_host::fake;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Context, Journal, Pool, Ports, Queue, Role, client};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::role::{Manager, Settings};
use crate::kubelet::nodestatus::InUse;
use crate::kubelet::pluginmanager::Drivers;
use crate::kubelet::{PodRecords, Tenants};

/// B19: a driver that is stuck must not hold up another one's volumes.
#[tokio::test]
async fn each_driver_has_workers_of_its_own() {
    let (host, _) = fake::host(1);
    let ports = Ports::new(client::nowhere(), host, Journal::default(), CancellationToken::new());
    let settings = Settings {
        node_name: "n".into(),
        kubelet_dir: "/kubelet".into(),
        drivers: Drivers::default(),
        in_use: InUse::default(),
        tenants: Tenants::default(),
        records: PodRecords::load(&ports.host, Path::new("/kubelet")).await.unwrap(),
        view: oneshot::channel().0,
    };
    let (effects, recorder) = (ports.effects("test"), ports.recorder("test"));
    let context = Context { ports, effects, recorder, queue: Queue::new(Backoff::VOLUME) };
    let role = Manager::start(context, settings).await.unwrap();
    let table = [
        ("a volume", "kubernetes.io/csi/a.example^1", "a.example"),
        ("another one of the same driver", "kubernetes.io/csi/a.example^2", "a.example"),
        ("one of another driver", "kubernetes.io/csi/b.example^1", "b.example"),
        ("no volume at all", "odd", ""),
    ];
    for (what, volume, pool) in table {
        assert_eq!(role.pool(&volume.to_owned()), Pool::new(pool, Manager::WORKERS), "{what}");
    }
}
