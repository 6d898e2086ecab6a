//! A connection that can be cut, and one on which answers get lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Open,
    /// Requests arrive, answers do not.
    Deaf,
    /// Connections break, and no new one comes about.
    Cut,
}

pub struct Proxy {
    pub url: String,
    /// Connections that did not come about.
    refused: Arc<AtomicUsize>,
    mode: Arc<watch::Sender<Mode>>,
    _running: DropGuard,
}

impl Proxy {
    pub async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mode = Arc::new(watch::Sender::new(Mode::Open));
        let stop = CancellationToken::new();
        let refused = Arc::new(AtomicUsize::new(0));
        let accepting = accept(listener, target, mode.clone(), refused.clone(), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accepting));
        Self { url, refused, mode, _running: stop.drop_guard() }
    }

    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn accept(
    listener: TcpListener,
    target: String,
    mode: Arc<watch::Sender<Mode>>,
    refused: Arc<AtomicUsize>,
    stop: CancellationToken,
) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if *mode.borrow() == Mode::Cut {
            refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let (target, mode) = (target.clone(), mode.subscribe());
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            if let Ok(server) = TcpStream::connect(target).await {
                carry(client, server, mode).await;
            }
        }));
    }
}

async fn carry(client: TcpStream, server: TcpStream, mode: watch::Receiver<Mode>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut cut = mode.clone();
    let there = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let back = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            if *mode.borrow() != Mode::Deaf && to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = cut.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}
