//! What a sidecar is started with, without an API server and without a driver.

use std::fmt::Debug;
use std::time::Duration;

use bowline_host::{Host, fake};
use bowline_machinery::csi::Driver;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Context, Identity, Journal, Ports, Queue, Sidecar, client};
use tokio_util::sync::CancellationToken;

pub fn context<K: Ord + Clone + Debug + Send + Sync + 'static>() -> Context<K> {
    let (host, _) = fake::host(1);
    let ports = Ports::new(client::nowhere(), host, Journal::default(), CancellationToken::new());
    let (effects, recorder) = (ports.effects("test"), ports.recorder("test"));
    Context { ports, effects, recorder, queue: Queue::new(Backoff::VOLUME) }
}

pub fn sidecar(host: &Host) -> Sidecar {
    let identity =
        Identity { name: "d.example".into(), services: Default::default(), controller: Default::default() };
    let driver = Driver::at(host, "/csi.sock");
    let timeout = Duration::from_secs(15);
    Sidecar { driver, identity, timeout, backoff: Backoff::VOLUME, namespace: "default".into() }
}
