use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::fake_api::{self, Answer};

const BOUND: Duration = Duration::from_secs(60);

/// The certificates that clients show with their requests, and the one that is refused, as if it had expired.
#[derive(Clone, Default)]
struct Clients {
    shown: Arc<Mutex<Vec<Vec<u8>>>>,
    refused: Arc<Mutex<Vec<u8>>>,
}

/// A TLS server that counts its connections, keeps watches open, and can stop to read.
struct Server {
    address: String,
    connections: Arc<AtomicUsize>,
    versions: Arc<Mutex<Vec<Version>>>,
    clients: Clients,
    /// While true, no connection is served, and none is closed.
    frozen: watch::Sender<bool>,
    disk: Arc<dyn Disk>,
}

impl Server {
    async fn start(protocols: &[&str]) -> Self {
        Self::start_trusting(protocols, &[]).await
    }

    /// Clients may show one of these certificates.
    async fn start_trusting(protocols: &[&str], clients: &[rcgen::CertifiedKey<rcgen::KeyPair>]) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        clients.iter().for_each(|client| roots.add(client.cert.der().clone()).unwrap());
        let verifier: Arc<dyn rustls::server::danger::ClientCertVerifier> = match clients {
            [] => Arc::new(rustls::server::NoClientAuth),
            _ => rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
                .build()
                .unwrap(),
        };
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: format!("https://{}", listener.local_addr().unwrap()),
            connections: Arc::default(),
            versions: Arc::default(),
            clients: Clients::default(),
            frozen: watch::channel(false).0,
            disk: bowline_host::fake::host(1).0.disk,
        };
        server.disk.write_atomic("/token".as_ref(), b"t\n", 0o600).await.unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let (connections, versions) = (server.connections.clone(), server.versions.clone());
        let (frozen, clients) = (server.frozen.subscribe(), server.clients.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(
                    acceptor.clone(),
                    socket,
                    versions.clone(),
                    clients.clone(),
                    frozen.clone(),
                ));
            }
        });
        server
    }

    async fn client(&self) -> Client {
        self.client_showing(json!({"tokenFile": "/token"})).await
    }

    async fn client_showing(&self, user: serde_json::Value) -> Client {
        let user = json!({"name": "u", "user": user});
        let cluster =
            json!({"name": "k", "cluster": {"server": self.address, "insecure-skip-tls-verify": true}});
        let context = json!({"name": "c", "context": {"cluster": "k", "user": "u"}});
        let file: Kubeconfig = serde_json::from_value(
            json!({"current-context": "c", "contexts": [context], "clusters": [cluster], "users": [user]}),
        )
        .unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        super::client(config, Line::default(), self.disk.clone()).await.unwrap()
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    socket: tokio::net::TcpStream,
    versions: Arc<Mutex<Vec<Version>>>,
    clients: Clients,
    mut frozen: watch::Receiver<bool>,
) {
    let Ok(stream) = acceptor.accept(socket).await else { return };
    let own = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|own| own.to_vec());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        versions.lock().unwrap().push(request.version());
        let refused = own.as_ref().is_some_and(|own| *own == *clients.refused.lock().unwrap());
        clients.shown.lock().unwrap().extend(own.clone());
        async move {
            Ok::<_, Infallible>(match refused {
                true => fake_api::status(401, "Unauthorized", "Unauthorized"),
                false => answer(&request),
            })
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = frozen.wait_for(|frozen| *frozen) => {}
    }
    std::future::pending::<()>().await;
}

fn answer(request: &Request<Incoming>) -> Answer {
    if request.headers().get("authorization").is_none_or(|token| token != "Bearer t") {
        return fake_api::status(401, "Unauthorized", "Unauthorized");
    }
    if !is_stream(request) {
        return fake_api::json_answer(200, &json!({"major": "1"}));
    }
    let (lines, answer) = fake_api::stream();
    tokio::spawn(async move { lines.closed().await });
    answer
}

async fn watch(client: &Client) -> Response<Body> {
    let request = Request::get("/api/v1/pods?watch=true").body(Body::empty()).unwrap();
    tokio::time::timeout(BOUND, client.send(request)).await.expect("an answer").unwrap()
}

async fn call(client: &Client) -> String {
    let request = Request::get("/version").body(Vec::new()).unwrap();
    tokio::time::timeout(BOUND, client.request_text(request)).await.expect("an answer").unwrap()
}

/// B20: one connection for each watched secret.
#[tokio::test]
async fn watches_share_connections_and_never_block_calls() {
    let server = Server::start(&["h2", "http/1.1"]).await;
    let client = server.client().await;
    let mut watches = Vec::new();
    for _ in 0..STREAMS_MAX {
        watches.push(watch(&client).await);
    }
    call(&client).await;
    assert_eq!(server.connections.load(Ordering::SeqCst), 2, "one for watches, one for calls");
    for _ in 0..STREAMS_MAX {
        watches.push(watch(&client).await);
    }
    call(&client).await;
    assert_eq!(server.connections.load(Ordering::SeqCst), 3);
    assert!(server.versions.lock().unwrap().iter().all(|version| *version == Version::HTTP_2));
    watches.truncate(1);
    watches.push(watch(&client).await);
    assert_eq!(server.connections.load(Ordering::SeqCst), 3, "places of ended watches are used again");
}

/// A process starts all its watches at once, before the first connection stands.
#[tokio::test]
async fn watches_that_start_together_are_all_answered() {
    let server = Server::start(&["h2", "http/1.1"]).await;
    let client = server.client().await;
    let watches = futures::future::join_all((0..STREAMS_MAX * 2).map(|_| watch(&client))).await;
    assert_eq!(watches.len(), STREAMS_MAX * 2);
    call(&client).await;
}

#[tokio::test]
async fn a_server_without_http2_is_spoken_to_with_http1() {
    let server = Server::start(&["http/1.1"]).await;
    let client = server.client().await;
    let _watch = watch(&client).await;
    assert!(call(&client).await.contains("major"));
    assert!(server.versions.lock().unwrap().iter().all(|version| *version == Version::HTTP_11));
}

/// B8: the other end is gone without a word; the connection looks open.
#[tokio::test]
async fn a_watch_on_a_dead_connection_ends_by_keep_alives() {
    let server = Server::start(&["h2"]).await;
    let client = server.client().await;
    let mut body = watch(&client).await.into_body();
    server.frozen.send_replace(true);
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let end = tokio::time::timeout(Duration::from_secs(600), body.frame()).await.expect("it ends");
    assert!(end.is_none_or(|frame| frame.is_err()));
    assert!(start.elapsed() <= (KEEP_ALIVE + KEEP_ALIVE_TIMEOUT) * 2, "{:?}", start.elapsed());
}

/// A server that accepts connections and says nothing, as one that is out of threads.
#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server: Uri = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let inner =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().wrap_connector(tcp);
    let mut connector = Timed { inner, within: Duration::from_millis(200) };
    std::future::poll_fn(|cx| connector.poll_ready(cx)).await.unwrap();
    let error = tokio::time::timeout(BOUND, connector.call(server)).await.expect("an end").err().unwrap();
    assert!(error.to_string().contains("no connection with TLS within"), "{error}");
}

/// The certificate of a kubelet expires, and a new one stands in its place: the first request that is refused leads to new
/// connections, which show it.
#[tokio::test]
async fn a_certificate_that_was_rotated_is_shown_by_new_connections() {
    let [old, new] =
        ["old", "new"].map(|name| rcgen::generate_simple_self_signed(vec![name.into()]).unwrap());
    let (old_der, new_der) = (old.cert.der().to_vec(), new.cert.der().to_vec());
    let pems = [
        (old.cert.pem(), old.signing_key.serialize_pem()),
        (new.cert.pem(), new.signing_key.serialize_pem()),
    ];
    let server = Server::start_trusting(&["h2"], &[old, new]).await;
    let write = async |(certificate, key): &(String, String)| {
        server.disk.write_atomic("/c.crt".as_ref(), certificate.as_bytes(), 0o600).await.unwrap();
        server.disk.write_atomic("/c.key".as_ref(), key.as_bytes(), 0o600).await.unwrap();
    };
    write(&pems[0]).await;
    let user = json!({"tokenFile": "/token", "client-certificate": "/c.crt", "client-key": "/c.key"});
    let client = server.client_showing(user).await;
    let _watch = watch(&client).await;
    call(&client).await;
    write(&pems[1]).await;
    call(&client).await;
    assert!(server.clients.shown.lock().unwrap().iter().all(|shown| *shown == old_der), "it is not time yet");

    *server.clients.refused.lock().unwrap() = old_der;
    let request = Request::get("/version").body(Vec::new()).unwrap();
    client.request_text(request).await.expect_err("refused");
    call(&client).await;
    let _other = watch(&client).await;
    let shown = server.clients.shown.lock().unwrap();
    assert!(shown[shown.len() - 2..].iter().all(|shown| *shown == new_der), "calls and watches");
}
