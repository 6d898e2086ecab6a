//! Our garbage collector beside an API server: upstream's server has its own beside it.

use std::path::PathBuf;
use std::thread::JoinHandle;

use bowline_host::real::{RealConfig, host};
use bowline_machinery::client::{Line, Source};
use bowline_machinery::{Journal, Ports, client, role};
use bowline_roles::controllers::garbagecollector;
use tokio_util::sync::CancellationToken;

/// Runs until it is dropped.
pub struct Collector {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// For the server of this kubeconfig, with a runtime of its own because its callers have none.
    pub fn start(kubeconfig: PathBuf) -> Self {
        let stop = CancellationToken::new();
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let dir = kubeconfig.parent().expect("a directory");
                let host = host(RealConfig::new(dir)).expect("this machine");
                let source = Source::File(kubeconfig.clone());
                let client = client::connect(&source, Line::default(), host.disk.clone()).await;
                let client = client.expect("client from the kubeconfig");
                let ports = Ports::new(client, host, Journal::default(), until);
                role::run::<garbagecollector::Collector>(ports, ())
                    .await
                    .expect("the garbage collector runs");
            });
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
