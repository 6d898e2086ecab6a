//! Ports that nobody listens on, and that the kernel gives to no client meanwhile.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that the kernel hands out by itself: a port that is let go here is taken by no connection of others.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// Held until all are known, so that no two are the same.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| free());
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}

fn free() -> TcpListener {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Processes that run beside this one begin elsewhere.
    let begin = std::process::id().wrapping_mul(97);
    let candidate = |_| {
        let port = FIRST + begin.wrapping_add(TRIED.fetch_add(1, Ordering::SeqCst)) % COUNT;
        TcpListener::bind(("127.0.0.1", u16::try_from(port).ok()?)).ok()
    };
    (0..COUNT).find_map(candidate).expect("a free port")
}
