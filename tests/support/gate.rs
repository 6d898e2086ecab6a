//! A socket in front of another one, where answers can be held back: the call has landed and its caller does not know.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
struct State {
    held: Mutex<bool>,
    released: Condvar,
}

/// Carries connections for as long as the process lives.
pub struct Gate(Arc<State>);

impl Gate {
    pub fn start(listen: &Path, target: PathBuf) -> Self {
        let listener = UnixListener::bind(listen).expect("a socket");
        let state = Arc::<State>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A target that is gone is a connection that ends.
                if let Ok(server) = UnixStream::connect(&target) {
                    carry(client, server, &shared);
                }
            }
        });
        Self(state)
    }

    /// From now on requests arrive and their answers wait.
    pub fn hold(&self) {
        *self.0.held.lock().expect("its state") = true;
    }

    pub fn release(&self) {
        *self.0.held.lock().expect("its state") = false;
        self.0.released.notify_all();
    }
}

fn carry(client: UnixStream, server: UnixStream, state: &Arc<State>) {
    let [client_end, server_end] = [&client, &server].map(|stream| stream.try_clone().expect("a second end"));
    let state = state.clone();
    let wait = move || {
        let held = state.held.lock().expect("its state");
        drop(state.released.wait_while(held, |held| *held).expect("its state"));
    };
    std::thread::spawn(move || copy(client, server_end, || {}));
    std::thread::spawn(move || copy(server, client_end, wait));
}

/// Copies until one side ends; then neither goes on.
fn copy(mut from: UnixStream, mut to: UnixStream, wait: impl Fn()) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        wait();
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
