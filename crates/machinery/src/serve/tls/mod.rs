//! How a server encrypts, and by which certificates it knows its clients. Files are read again as they are replaced.

mod clients;
mod made;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::BoxStream;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::VerifierBuilderError;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::keypair::{self, PemError};
use clients::Judge;
pub use clients::{CertificateReader, Shown};

/// How old what was read may be when a connection comes; upstream looks at its files every minute, too.
const REREAD: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("set up TLS: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("set up client certificates: {0}")]
    Clients(#[from] VerifierBuilderError),
    #[error("make a self-signed certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("make a self-signed certificate: {0}")]
    Date(#[from] jiff::Error),
}

/// How a server encrypts.
pub struct Tls {
    host: Host,
    /// Settings that were given as a whole have none.
    source: Option<Source>,
    kept: Mutex<Kept>,
}

/// Where the certificates come from.
struct Source {
    own: Own,
    /// The authorities of clients.
    clients: Option<(PathBuf, CertificateReader)>,
}

/// The server's own certificate.
enum Own {
    Files { certificate: PathBuf, key: PathBuf },
    Made(Arc<CertifiedKey>),
}

/// The other end of a connection.
pub struct Client {
    /// The certificates that it has shown.
    chain: Vec<CertificateDer<'static>>,
    tls: Arc<Tls>,
}

impl Client {
    /// Who it is by the authorities and the time of now: a connection may last longer than a certificate.
    pub async fn judged(&self) -> Shown {
        let judge = self.tls.current().await.judge;
        judge.judge(&self.chain, self.tls.host.clock.now())
    }
}

struct Kept {
    read: Instant,
    current: Current,
}

#[derive(Clone)]
struct Current {
    acceptor: TlsAcceptor,
    judge: Judge,
}

impl Tls {
    /// Reads a certificate, with those of its issuers behind it, and its key.
    pub async fn read(host: &Host, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let own = Own::Files { certificate: certificate.to_owned(), key: key.to_owned() };
        Self::new(host.clone(), Source { own, clients: None }).await
    }

    /// Makes a certificate that lasts as long as the process, for clients that do not verify it.
    pub async fn self_signed(host: &Host, name: &str, address: IpAddr) -> Result<Self, TlsError> {
        let own = Own::Made(Arc::new(made::self_signed(host.clock.now(), name, address)?));
        Self::new(host.clone(), Source { own, clients: None }).await
    }

    /// Clients may show certificates of the authorities in this file (`--client-ca-file`).
    pub async fn trusting(self, authorities: &Path, user_of: CertificateReader) -> Result<Self, TlsError> {
        let Some(source) = self.source else { return Ok(self) };
        let clients = Some((authorities.to_owned(), user_of));
        Self::new(self.host, Source { clients, ..source }).await
    }

    /// Settings that never change: they say which clients get past the handshake.
    pub fn fixed(host: &Host, config: Arc<ServerConfig>) -> Self {
        let current = Current { acceptor: TlsAcceptor::from(config), judge: Judge::none() };
        let kept = Mutex::new(Kept { read: Instant::now(), current });
        Self { host: host.clone(), source: None, kept }
    }

    async fn new(host: Host, source: Source) -> Result<Self, TlsError> {
        let kept = Kept { read: Instant::now(), current: source.load(&host).await? };
        Ok(Self { host, source: Some(source), kept: Mutex::new(kept) })
    }

    /// The handshake with a client.
    pub async fn accept(self: &Arc<Self>, stream: BoxStream) -> io::Result<(TlsStream<BoxStream>, Client)> {
        let stream = self.current().await.acceptor.accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Ok((stream, Client { chain, tls: self.clone() }))
    }

    /// While the files cannot be used, what was read before.
    async fn current(&self) -> Current {
        let mut kept = self.kept.lock().await;
        if let Some(source) = &self.source
            && kept.read.elapsed() >= REREAD
        {
            kept.read = Instant::now();
            match source.load(&self.host).await {
                Ok(current) => kept.current = current,
                Err(error) => {
                    let error = crate::client::one_line(&error);
                    tracing::warn!(error, "keeping the certificates that were read before");
                }
            }
        }
        kept.current.clone()
    }
}

impl Source {
    async fn load(&self, host: &Host) -> Result<Current, TlsError> {
        let disk = host.disk.as_ref();
        let own = match &self.own {
            Own::Files { certificate, key } => Arc::new(keypair::read(disk, certificate, key).await?),
            Own::Made(made) => made.clone(),
        };
        let judge = match &self.clients {
            None => Judge::none(),
            Some((path, user_of)) => {
                let mut roots = RootCertStore::empty();
                for certificate in keypair::certificates(disk, path).await? {
                    roots.add(certificate)?;
                }
                Judge::trusting(roots, *user_of)?
            }
        };
        Current::new(own, judge)
    }
}

impl Current {
    fn new(own: Arc<CertifiedKey>, judge: Judge) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(judge.for_handshake())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), judge })
    }
}
