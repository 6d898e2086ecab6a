//! A connection to a port of this machine on which answers can be lost.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Carries connections for as long as the process lives.
pub struct Deaf {
    pub port: u16,
    deaf: Arc<AtomicBool>,
}

impl Deaf {
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let deaf = Arc::new(AtomicBool::new(false));
        let told = deaf.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A member that is gone is a connection that ends.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", target)) {
                    carry(client, server, told.clone());
                }
            }
        });
        Self { port, deaf }
    }

    /// From now on requests arrive and answers do not.
    pub fn lose_answers(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }
}

fn carry(client: TcpStream, server: TcpStream, deaf: Arc<AtomicBool>) {
    let [client_out, server_out] = [&client, &server].map(|stream| stream.try_clone().expect("a second end"));
    std::thread::spawn(move || copy(client, server_out, || false));
    std::thread::spawn(move || copy(server, client_out, move || deaf.load(Ordering::SeqCst)));
}

/// Until one side ends, and then neither goes on.
fn copy(mut from: TcpStream, mut to: TcpStream, lost: impl Fn() -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !lost() && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
