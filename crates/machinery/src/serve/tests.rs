//! A server on a fake machine's port, and one request at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::BoxStream;
use http::StatusCode;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::metrics::Metrics;

const ADDRESS: &str = "127.0.0.1:8080";
const FLAG: &str = "--http-endpoint";

fn fake() -> Host {
    bowline_host::fake::host(1).0
}

/// Serves until the guard is dropped.
async fn serve(host: &Host, pages: Pages, tls: Option<Tls>) -> tokio_util::sync::DropGuard {
    let stop = CancellationToken::new();
    let bound = Bound::bind(host, FLAG, ADDRESS, tls).await.expect("the port is free");
    tokio::spawn(bound.serve(pages, stop.clone()));
    stop.drop_guard()
}

async fn ask(stream: BoxStream, request: &str) -> String {
    let mut stream = stream;
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

/// Status and body.
async fn get(host: &Host, path: &str) -> (u16, String) {
    let stream = host.net.connect_tcp(ADDRESS).await.expect("the server listens");
    split(
        &ask(
            stream,
            &format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: application/openmetrics-text\r\n\r\n"),
        )
        .await,
    )
}

fn split(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, body.to_owned())
}

fn metrics() -> Metrics {
    Metrics::new(Timestamp::UNIX_EPOCH)
}

#[tokio::test]
async fn a_sidecar_serves_metrics_and_the_state_of_its_election() {
    let host = fake();
    let late = Arc::new(AtomicBool::new(false));
    let state = late.clone();
    let check = Check::new("leader-election", move || {
        let late = state.load(Ordering::SeqCst);
        std::future::ready(if late { Err("the lease was not renewed in time".to_owned()) } else { Ok(()) })
    });
    let pages = Pages::new(Everyone).metrics("/m", &metrics()).check("/healthz/leader-election", check);
    let _serving = serve(&host, pages, None).await;

    let stream = host.net.connect_tcp(ADDRESS).await.expect("listens");
    let answer =
        ask(stream, "GET /m HTTP/1.1\r\nhost: x\r\naccept: application/openmetrics-text\r\n\r\n").await;
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    assert!(
        answer.contains("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 0\n"),
        "{answer}"
    );

    assert_eq!(get(&host, "/healthz/leader-election").await, (200, "ok".into()));
    late.store(true, Ordering::SeqCst);
    let (status, body) = get(&host, "/healthz/leader-election").await;
    assert_eq!(status, 500);
    assert!(body.starts_with("internal server error: "), "{body}");
    for path in ["/", "/healthz", "/metrics", "/m/x"] {
        assert_eq!(get(&host, path).await, (404, "404 page not found\n".into()), "{path}");
    }
    let stream = host.net.connect_tcp(ADDRESS).await.expect("listens");
    assert_eq!(split(&ask(stream, "POST /m HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await).0, 405);
}

/// As upstream's controllers, which are listed once they run.
#[tokio::test]
async fn checks_are_added_while_their_page_is_served() {
    let host = fake();
    let checks = Checks::default();
    let pages = Pages::new(Everyone).health("/healthz", checks.clone());
    let _serving = serve(&host, pages, None).await;
    assert_eq!(get(&host, "/healthz?verbose").await, (200, "[+]ping ok\nhealthz check passed\n".into()));
    assert_eq!(get(&host, "/healthz/a").await.0, 404);
    checks.add(Check::passed("a"));
    assert_eq!(get(&host, "/healthz?verbose").await, (200, "[+]a ok\nhealthz check passed\n".into()));
    assert_eq!(get(&host, "/healthz/a").await, (200, "ok".into()));
    assert_eq!(get(&host, "/healthz/a/a").await.0, 404);
}

#[tokio::test]
async fn kube_programs_list_their_checks() {
    let host = fake();
    let failing = Check::new("informer-sync", || std::future::ready(Err("pods are not synced".to_owned())));
    let access = AllowedPaths { paths: vec!["/healthz".into(), "/readyz*".into()], reviewer: None };
    let pages = Pages::new(access)
        .metrics("/metrics", &metrics())
        .health("/healthz", vec![Check::ping(), Check::passed("leaderElection")])
        .health("/readyz", vec![Check::ping(), failing]);
    let _serving = serve(&host, pages, None).await;
    assert_eq!(get(&host, "/healthz").await, (200, "ok".into()));
    let listed = "[+]ping ok\n[+]leaderElection ok\nhealthz check passed\n";
    assert_eq!(get(&host, "/healthz?verbose").await, (200, listed.into()));
    let failed = "[+]ping ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n";
    assert_eq!(get(&host, "/readyz").await, (500, failed.into()));
    assert_eq!(get(&host, "/readyz?exclude=informer-sync").await, (200, "ok".into()));
    let alone = "internal server error: pods are not synced\n";
    assert_eq!(get(&host, "/readyz/informer-sync").await, (500, alone.into()));
    // Not open, and there is no reviewer.
    for path in ["/metrics", "/healthz/ping", "/nothing"] {
        let (status, body) = get(&host, path).await;
        assert_eq!(status, 403, "{path}");
        let expected = format!("forbidden: User \\\"system:anonymous\\\" cannot get path \\\"{path}\\\"");
        assert!(body.contains(&expected), "{body}");
    }
}

#[tokio::test]
async fn pages_can_have_statuses_of_their_own() {
    let host = fake();
    let pages = Pages::new(Everyone).page("/healthz", || async {
        Answer::new(StatusCode::NOT_FOUND, "registration socket does not exist")
    });
    let _serving = serve(&host, pages, None).await;
    assert_eq!(get(&host, "/healthz").await, (404, "registration socket does not exist".into()));
}

#[tokio::test]
async fn a_taken_port_is_one_line_that_says_what_to_do() {
    let host = fake();
    let _first = Bound::bind(&host, FLAG, ADDRESS, None).await.expect("free");
    let error = Bound::bind(&host, FLAG, ADDRESS, None).await.map(|_| ()).expect_err("taken");
    let expected = "--http-endpoint: the address `127.0.0.1:8080` is taken by another process; stop that one or choose \
                    another port";
    assert_eq!(error.to_string(), expected);
    let error = Bound::bind(&host, FLAG, "nonsense", None).await.map(|_| ()).expect_err("no address");
    assert_eq!(error.to_string(), "--http-endpoint: listen on `nonsense`");
}

#[tokio::test]
async fn a_port_without_a_host_is_all_addresses() {
    let bound = Bound::bind(&fake(), FLAG, ":8080", None).await.expect("free");
    assert!(bound.address.ip().is_unspecified());
    assert_eq!(bound.address.port(), 8080);
}

#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_end_and_keep_no_others_waiting() {
    let host = fake();
    let _serving = serve(&host, Pages::new(Everyone).health("/healthz", vec![Check::ping()]), None).await;
    let begun = tokio::time::Instant::now();
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(host.net.connect_tcp(ADDRESS).await.expect("listens"));
    }
    assert_eq!(get(&host, "/healthz").await, (200, "ok".into()));
    assert!(begun.elapsed() < Duration::from_secs(1), "no silent one had to time out first");
    let mut last = silent.pop().expect("one");
    let mut nothing = Vec::new();
    last.read_to_end(&mut nothing).await.expect("closed in order");
    assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_secure_port_has_a_certificate_of_its_own() {
    let host = fake();
    let tls = Tls::self_signed(&host, "kube-scheduler", [0, 0, 0, 0].into()).await.expect("made");
    let _serving =
        serve(&host, Pages::new(Everyone).health("/healthz", vec![Check::ping()]), Some(tls)).await;
    assert_eq!(secure_get(&host, "/healthz").await, (200, "ok".into()));
}

#[tokio::test]
async fn a_certificate_is_read_from_files() {
    let host = fake();
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::new(vec!["x".to_owned()])
        .expect("params")
        .self_signed(&key)
        .expect("signed");
    let (at, of) = (std::path::Path::new("/tls.crt"), std::path::Path::new("/tls.key"));
    let missing = Tls::read(&host, at, of).await.map(|_| ()).expect_err("absent");
    assert_eq!(missing.to_string(), "read `/tls.crt`");
    host.disk.write_atomic(at, certificate.pem().as_bytes(), 0o644).await.expect("written");
    host.disk.write_atomic(of, b"nonsense", 0o600).await.expect("written");
    let wrong = Tls::read(&host, at, of).await.map(|_| ()).expect_err("nonsense");
    assert_eq!(wrong.to_string(), "`/tls.key` holds no usable PEM: no private key");
    host.disk.write_atomic(of, key.serialize_pem().as_bytes(), 0o600).await.expect("written");
    let tls = Tls::read(&host, at, of).await.expect("read");
    let _serving =
        serve(&host, Pages::new(Everyone).health("/healthz", vec![Check::ping()]), Some(tls)).await;
    assert_eq!(secure_get(&host, "/healthz").await, (200, "ok".into()));
}

/// Says who asks.
struct Asking;

#[async_trait::async_trait]
impl Access for Asking {
    async fn allow(&self, request: &http::request::Parts) -> Result<(), Denied> {
        let user = request.extensions.get().map(|CertificateUser(user)| user.name.clone());
        match (user, request.extensions.get()) {
            (Some(user), _) => Err(Denied::Forbidden { user }),
            (None, Some(UntrustedCertificate)) => Err(Denied::Unauthorized),
            (None, None) => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clients_are_known_by_certificates_of_authorities_that_may_change() {
    let host = fake();
    let [one, two] =
        ["one", "two"].map(|name| rcgen::generate_simple_self_signed(vec![name.into()]).expect("made"));
    let path = std::path::Path::new("/ca.crt");
    host.disk.write_atomic(path, one.cert.pem().as_bytes(), 0o644).await.expect("written");
    let tls = Tls::self_signed(&host, "kube-scheduler", [0, 0, 0, 0].into()).await.expect("made");
    let user_of = |_: &[u8]| Some(User { name: "jane".into(), ..User::default() });
    let tls = tls.trusting(path, user_of).await.expect("read");
    let _serving = serve(&host, Pages::new(Asking).health("/healthz", vec![Check::ping()]), Some(tls)).await;
    let ask = async |client| secure_get_as(&host, client, "/healthz").await;
    assert_eq!(ask(None).await, (200, "ok".into()), "one without a certificate is let in");
    let (status, text) = ask(Some(&one)).await;
    assert!(status == 403 && text.contains("jane"), "{status} {text}");
    assert_eq!(ask(Some(&two)).await.0, 401, "an answer, not a broken connection");

    host.disk.write_atomic(path, two.cert.pem().as_bytes(), 0o644).await.expect("written");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!((ask(Some(&one)).await.0, ask(Some(&two)).await.0), (401, 403), "the authority was replaced");
    host.disk.write_atomic(path, b"nonsense", 0o644).await.expect("written");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!((ask(Some(&one)).await.0, ask(Some(&two)).await.0), (401, 403), "what was read before stays");
}

async fn secure_get(host: &Host, path: &str) -> (u16, String) {
    secure_get_as(host, None, path).await
}

type Certified = rcgen::CertifiedKey<rcgen::KeyPair>;

/// Like `curl -k`, with or without a certificate.
async fn secure_get_as(host: &Host, client: Option<&Certified>, path: &str) -> (u16, String) {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty());
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let key = client.signing_key.serialize_der().try_into().expect("a key");
            config.with_client_auth_cert(vec![client.cert.der().clone()], key).expect("a certificate")
        }
    };
    config.dangerous().set_certificate_verifier(Arc::new(unverified::Unverified));
    let stream = host.net.connect_tcp(ADDRESS).await.expect("listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
    split(&ask(Box::new(stream), &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await)
}

mod unverified {
    use tokio_rustls::rustls::client::danger::{
        HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
    };
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub(super) struct Unverified;

    impl ServerCertVerifier for Unverified {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            tokio_rustls::rustls::crypto::ring::default_provider()
                .signature_verification_algorithms
                .supported_schemes()
        }
    }
}
