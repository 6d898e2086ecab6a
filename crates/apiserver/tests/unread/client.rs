//! Connections with a small receive buffer: what a client does not read stays with the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::certs::Credentials;
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Generous: these tests also run beside two busy cores.
pub const PATIENCE: Duration = Duration::from_secs(120);
const RECEIVE: u32 = 8 << 10;

pub struct Client {
    address: SocketAddr,
    tls: rustls::ClientConfig,
}

impl Client {
    pub fn new(address: SocketAddr, authority: &str, own: &Credentials) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        Self { address, tls }
    }

    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        let mut tls = self.tls.clone();
        tls.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
    }

    /// A request over HTTP/1.1 whose answer has begun and is not read.
    pub async fn begin(&self, path: &str) -> TlsStream<TcpStream> {
        let mut stream = self.send(path).await;
        let mut begun = [0; 12];
        tokio::time::timeout(PATIENCE, stream.read_exact(&mut begun)).await.unwrap().unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        stream
    }

    /// The same without waiting for an answer.
    pub async fn send(&self, path: &str) -> TlsStream<TcpStream> {
        let mut stream = self.connect(b"http/1.1").await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    /// A whole answer.
    pub async fn get(&self, path: &str) -> String {
        let mut stream = self.send(path).await;
        let mut answer = Vec::new();
        // The server may close a connection without the farewell of TLS.
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    pub async fn http2(&self) -> Http2 {
        let stream = self.connect(b"h2").await;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(64 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        Http2 { sender, connection: tokio::spawn(async move { drop(connection.await) }) }
    }
}

/// One connection; its end ends all streams.
pub struct Http2 {
    sender: SendRequest<Empty<Bytes>>,
    connection: tokio::task::JoinHandle<()>,
}

impl Http2 {
    pub async fn begin(&mut self, path: &str) -> Incoming {
        let request = Request::get(format!("https://a{path}")).body(Empty::new()).unwrap();
        self.sender.ready().await.unwrap();
        let answer =
            tokio::time::timeout(PATIENCE, self.sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body()
    }
}

impl Http2 {
    /// Sends requests and takes each one back at once, until the server has had enough. Returns how many.
    pub async fn flood(&mut self, path: &str, most: usize) -> usize {
        for sent in 0..most {
            if self.sender.ready().await.is_err() {
                return sent;
            }
            let request = Request::get(format!("https://a{path}")).body(Empty::new()).unwrap();
            let mut answer = Box::pin(self.sender.send_request(request));
            // On its way before it is taken back.
            for _ in 0..3 {
                if futures::poll!(&mut answer).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        most
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
