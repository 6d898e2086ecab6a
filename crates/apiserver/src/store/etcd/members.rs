//! Connections to the members of etcd: one at a time, and the next one when it fails.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use super::EtcdSettings;
use crate::store::errors::OpenError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Finds members that vanished without a word, sooner than requests give up. etcd allows no less than five seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where one member listens.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    tls: bool,
}

/// Files are read anew for every connection, so that certificates may be renewed while the server runs.
#[derive(Debug, Clone)]
struct Files {
    ca: Option<PathBuf>,
    own: Option<(PathBuf, PathBuf)>,
}

pub struct Members {
    addresses: Vec<Address>,
    files: Arc<Files>,
    /// Counts up; the remainder says which member is asked.
    current: Mutex<(usize, Channel)>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Error = Box<dyn std::error::Error + Send + Sync>;

impl Members {
    pub fn new(settings: &EtcdSettings) -> Result<Self, OpenError> {
        let wrong = |why: String| settings.error(why);
        let addresses: Result<Vec<_>, _> = settings.servers.iter().map(|url| parse(url)).collect();
        let addresses = addresses.map_err(wrong)?;
        let own = match (&settings.cert_file, &settings.key_file) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(wrong("--etcd-certfile and --etcd-keyfile go together".into())),
        };
        let files = Arc::new(Files { ca: settings.ca_file.clone(), own });
        let first = addresses.first().ok_or_else(|| wrong("--etcd-servers names no server".into()))?;
        if addresses.iter().any(|address| address.tls) {
            // So that a wrong file is an error at the start and not a connection that never comes about.
            files.config().map_err(|error| wrong(error.to_string()))?;
        }
        let channel = channel(first, &files).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { current: Mutex::new((0, channel)), addresses, files })
    }

    /// The member to ask now, and a number to say which.
    pub fn current(&self) -> (usize, Channel) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Turns to the next member, unless somebody else did already.
    pub fn leave(&self, number: usize) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != number {
            return;
        }
        let next = number.wrapping_add(1);
        let address = &self.addresses[next % self.addresses.len()];
        match channel(address, &self.files) {
            Ok(channel) => *current = (next, channel),
            Err(error) => tracing::error!(host = address.host, %error, "cannot set up a connection to etcd"),
        }
    }
}

/// `http://host:port` or `https://host:port`.
fn parse(url: &str) -> Result<Address, String> {
    let wrong = || format!("`{url}` is not a server of etcd: it should look like https://host:2379");
    let uri: http::Uri = url.parse().map_err(|_| wrong())?;
    let tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong()),
    };
    let (host, port) = (uri.host().ok_or_else(wrong)?, uri.port_u16().ok_or_else(wrong)?);
    // An IPv6 address is in brackets inside a URL only.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Address { host, port, tls })
}

/// Connects when it is first used, and again whenever the connection broke.
fn channel(address: &Address, files: &Arc<Files>) -> Result<Channel, tonic::transport::Error> {
    let host = if address.host.contains(':') { format!("[{}]", address.host) } else { address.host.clone() };
    // TLS is the connector's business, so to tonic this is plain HTTP/2.
    let endpoint = Endpoint::from_shared(format!("http://{host}:{}", address.port))?
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    let (address, files) = (address.clone(), files.clone());
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
        let (address, files) = (address.clone(), files.clone());
        async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connect(&address, &files)).await {
                Ok(connected) => connected.map(TokioIo::new),
                Err(_) => Err(format!("no connection to {} within {CONNECT_TIMEOUT:?}", address.host).into()),
            }
        }
    })))
}

async fn connect(address: &Address, files: &Files) -> Result<Box<dyn Stream>, Error> {
    let place = (address.host.as_str(), address.port);
    let stream = TcpStream::connect(place)
        .await
        .map_err(|error| format!("connect to {}:{}: {error}", address.host, address.port))?;
    stream.set_nodelay(true)?;
    if !address.tls {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(address.host.clone())?;
    let connector = TlsConnector::from(Arc::new(files.config()?));
    let stream = connector.connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| format!("TLS with {}: {error}", address.host))?))
}

impl Files {
    fn config(&self) -> Result<ClientConfig, Error> {
        let ca = self.ca.as_deref().ok_or("https needs --etcd-cafile")?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let read = PrivateKeyDer::from_pem_file(key);
                let key = read.map_err(|error| format!("read key {}: {error}", key.display()))?;
                config.with_client_auth_cert(certificates(certificate)?, key)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |error: &dyn std::fmt::Display| format!("read certificates {}: {error}", path.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e))?.collect();
    let found = found.map_err(|error| wrong(&error))?;
    if found.is_empty() { Err(wrong(&"there are none").into()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let good = |host: &str, port, tls| Ok(Address { host: host.into(), port, tls });
        assert_eq!(parse("http://127.0.0.1:2379"), good("127.0.0.1", 2379, false));
        assert_eq!(parse("https://etcd-0.etcd:2379/"), good("etcd-0.etcd", 2379, true));
        assert_eq!(parse("https://[::1]:2379"), good("::1", 2379, true));
        for bad in ["127.0.0.1:2379", "http://127.0.0.1", "unix:///x", ""] {
            assert!(parse(bad).unwrap_err().contains("should look like https://host:2379"), "{bad}");
        }
    }
}
