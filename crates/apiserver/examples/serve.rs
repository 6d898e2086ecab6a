//! A server to point `kubectl` at: `serve DIR KUBECONFIG [PORT]`. With `-` for DIR it keeps nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_apiserver::certs::Authority;
use bowline_apiserver::kinds::plugins::Plugins;
use bowline_apiserver::kinds::register::{register, register_admission_of};
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_apiserver::{Registry, Server, Store, tls};
use bowline_host::{Clock, Random};
use tokio_util::sync::CancellationToken;

struct Now;

impl Clock for Now {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

/// Good enough for an example: names and UIDs that differ between runs.
struct Mixed(AtomicU64);

impl Random for Mixed {
    fn next_u64(&self) -> u64 {
        let n = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n ^ (n >> 27)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "serve DIR KUBECONFIG [PORT]";
    let (dir, path) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let port: u16 = arguments.next().map_or(Ok(0), |port| port.parse())?;

    let clock = Arc::new(Now);
    let now = clock.now();
    let (store, authority) = match dir.as_str() {
        "-" => (Store::memory(), Authority::ephemeral(now)?),
        dir => (Store::open_file(Path::new(dir))?, Authority::open(Path::new(dir), now)?),
    };
    let mut registry = Registry::new();
    register(&mut registry);
    register_admission_of(&mut registry, &Plugins::default());
    let seed = u64::try_from(now.as_nanosecond() & i128::from(u64::MAX))?;
    let server = Server::new(store, registry, clock, Arc::new(Mixed(AtomicU64::new(seed))));
    server.bootstrap().await.map_err(|status| status.message)?;

    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let config = tls::config(&authority, &authority.issue_server(&[], now)?)?;
    let address = format!("https://{}", listener.local_addr()?);
    write_kubeconfig(Path::new(&path), &address, &authority, &authority.issue_admin(now)?)?;

    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    tls::serve(listener, server, config, shutdown).await;
    Ok(())
}
