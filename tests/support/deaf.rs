//! A connection to a port of this machine on which answers get lost.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Carries connections for as long as the process lives. Once a request says `word`, it and all others arrive and their
/// answers do not. Returns the port to connect to.
pub fn deaf_after(word: &'static str, target: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let deaf = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A target that is gone is a connection that ends.
            if let Ok(server) = TcpStream::connect(("127.0.0.1", target)) {
                carry(client, server, word, deaf.clone());
            }
        }
    });
    port
}

fn carry(client: TcpStream, server: TcpStream, word: &'static str, deaf: Arc<AtomicBool>) {
    let [client_end, server_end] = [&client, &server].map(|stream| stream.try_clone().expect("a second end"));
    let told = deaf.clone();
    let there = move |request: &[u8]| {
        if request.windows(word.len()).any(|part| part == word.as_bytes()) {
            told.store(true, Ordering::SeqCst);
        }
        true
    };
    let back = move |_: &[u8]| !deaf.load(Ordering::SeqCst);
    std::thread::spawn(move || copy(client, server_end, there));
    std::thread::spawn(move || copy(server, client_end, back));
}

/// What passes, until one side ends; then neither goes on.
fn copy(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if passes(&buffer[..count]) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
