//! Clients that misbehave at the other end of real connections: they hear of it, and nobody else suffers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::certs::Authority;
use bowline_apiserver::{Store, tls};
use bowline_host::Clock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(180);

/// A server on a port of its own, and how its administrator gets there over HTTP/1.1.
struct Site {
    address: SocketAddr,
    connector: TlsConnector,
    shutdown: CancellationToken,
}

impl Site {
    async fn start() -> Self {
        let now = common::Now.now();
        let authority = Authority::ephemeral(now).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = tls::config(&authority, &authority.issue_server(&[], now).unwrap()).unwrap();
        let shutdown = CancellationToken::new();
        let server = common::server(Store::memory()).await;
        tokio::spawn(tls::serve(listener, server, config, shutdown.clone()));

        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
        let admin = authority.issue_admin(now).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(admin.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(admin.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        Self { address, connector: TlsConnector::from(Arc::new(client)), shutdown }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.connector.connect(ServerName::IpAddress(self.address.ip().into()), stream).await.unwrap()
    }

    /// Sends a request and reads all of the answer.
    async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        everything(stream).await
    }

    async fn version(&self) -> String {
        self.ask("GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// The server may close a connection without the farewell of TLS.
async fn everything(mut stream: TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn write(method: &str, path: &str, object: &Value) -> String {
    let body = object.to_string();
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_too_large_are_refused() {
    let site = Site::start().await;
    let mut stream = site.connect().await;
    let head = format!("GET /version HTTP/1.1\r\nhost: a\r\nx-large: {}", "x".repeat(2 << 20));
    // The server answers before it has read all of it, and may hang up.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = vec![0; 64];
    let length = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.unwrap().unwrap_or(0);
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
    assert!(site.version().await.starts_with("HTTP/1.1 200 "), "others are served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_finish_what_they_say_hinder_nobody() {
    let site = Site::start().await;
    let mut slow = Vec::new();
    for number in 0..100 {
        let mut stream = site.connect().await;
        let said = match number % 2 {
            0 => "GET /version HTTP/1.1\r\nhost: a\r\nx-unfin",
            _ => {
                "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n{\"kind\":"
            }
        };
        stream.write_all(said.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        slow.push(stream);
    }
    assert!(site.version().await.starts_with("HTTP/1.1 200 "));
    let mut late = slow.swap_remove(0);
    late.write_all(b"ished: 1\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = everything(late).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "who goes on is served, too: {answer}");
}

/// More than the buffers of a connection hold is written while a watcher does not read. It learns of every event in its
/// order, or that it has missed some; the writers wait for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_blocks_nobody_and_misses_nothing_unsaid() {
    const WRITES: u32 = 300;
    let site = Site::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let object = |round: u32| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"},
            "data": {"round": round.to_string(), "much": "x".repeat(200_000)}})
    };
    let mut watch = site.connect().await;
    let head = format!("GET {path}?watch=1&resourceVersion=0 HTTP/1.1\r\nhost: a\r\n\r\n");
    watch.write_all(head.as_bytes()).await.unwrap();
    watch.flush().await.unwrap();
    // From its answer on, it is told of everything.
    let mut answered = Vec::new();
    while !answered.ends_with(b"\r\n\r\n") {
        answered.push(watch.read_u8().await.unwrap());
    }

    let created = site.ask(&write("POST", path, &object(0))).await;
    assert!(created.starts_with("HTTP/1.1 201 "), "{}", &created[..200]);
    let writing = async {
        for round in 1..WRITES {
            let changed = site.ask(&write("PUT", &format!("{path}/large"), &object(round))).await;
            assert!(changed.starts_with("HTTP/1.1 200 "), "round {round}: {}", &changed[..200]);
        }
    };
    tokio::time::timeout(PATIENCE, writing).await.expect("writers do not wait for the watcher");

    let mut lines = BufReader::new(watch).lines();
    let mut next = 0;
    let reading = async {
        while next < WRITES {
            let line = lines.next_line().await.unwrap().expect("the watch ended without a word");
            let Some(event) = line.strip_prefix("{\"type\":") else { continue };
            if event.starts_with("\"ERROR\"") {
                assert!(event.contains("\"code\":410"), "{event}");
                return;
            }
            let wanted = format!("\"round\":\"{next}\"");
            assert!(event.contains(&wanted), "{wanted} is missing in {}", &event[..300]);
            next += 1;
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the watcher catches up");
}
