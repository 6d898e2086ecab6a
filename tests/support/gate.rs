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
    /// The first request with these bytes begins to hold answers back.
    trigger: Mutex<Option<Vec<u8>>>,
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

    /// From the first request on that contains this text: gRPC compresses headers, not messages.
    pub fn hold_at(&self, text: &str) {
        *self.0.trigger.lock().expect("its state") = Some(text.as_bytes().to_vec());
    }

    /// Waits until answers are held back.
    pub async fn until_held(&self, what: &str) {
        let held = async {
            while !*self.0.held.lock().expect("its state") {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let held = tokio::time::timeout(super::PATIENCE, held).await;
        assert!(held.is_ok(), "{what}: the driver was never called");
    }

    pub fn release(&self) {
        *self.0.held.lock().expect("its state") = false;
        self.0.released.notify_all();
    }
}

fn carry(client: UnixStream, server: UnixStream, state: &Arc<State>) {
    let [client_end, server_end] = [&client, &server].map(|stream| stream.try_clone().expect("a second end"));
    let (watched, state) = (state.clone(), state.clone());
    let look = move |sent: &[u8]| {
        let mut trigger = watched.trigger.lock().expect("its state");
        let found = |text: &Vec<u8>| sent.windows(text.len()).any(|part| part == text.as_slice());
        if trigger.as_ref().is_some_and(found) {
            *watched.held.lock().expect("its state") = true;
            *trigger = None;
        }
    };
    let wait = move |_: &[u8]| {
        let held = state.held.lock().expect("its state");
        drop(state.released.wait_while(held, |held| *held).expect("its state"));
    };
    std::thread::spawn(move || copy(client, server_end, look));
    std::thread::spawn(move || copy(server, client_end, wait));
}

/// Copies until one side ends; then neither goes on.
fn copy(mut from: UnixStream, mut to: UnixStream, before: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        before(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
