//! A server with the real kinds, as the binary would wire it.

#![allow(dead_code, clippy::panic, reason = "each test binary uses its own part and fails by panicking")]

pub mod kubectl;
#[path = "../../../../tests/support/peers.rs"]
pub mod peers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_apiserver::auth::Settings;
use bowline_apiserver::kinds::register::{register, register_admission};
use bowline_apiserver::{Registry, Server, Store};
use bowline_host::{Clock, Random};

pub struct Now;

impl Clock for Now {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

struct Mixed(AtomicU64);

impl Random for Mixed {
    fn next_u64(&self) -> u64 {
        let n = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n ^ (n >> 27)
    }
}

pub async fn server(store: Store) -> Server {
    server_with(store, Settings::default()).await
}

pub async fn server_with(store: Store, settings: Settings) -> Server {
    let mut registry = Registry::new();
    register(&mut registry);
    register_admission(&mut registry);
    let random = Arc::new(Mixed(AtomicU64::new(1)));
    let server = Server::guarded(store, registry, Arc::new(Now), random, settings);
    server.bootstrap().await.unwrap();
    server
}
