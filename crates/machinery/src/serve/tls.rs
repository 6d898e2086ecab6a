//! The certificate of the secure port.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_host::Host;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("read `{path}`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{path}` holds no usable PEM: {why}")]
    Pem { path: PathBuf, why: String },
    #[error("the certificate and the key of the secure port do not fit each other or cannot be used: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("make a self-signed certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("make a self-signed certificate: {0}")]
    Date(#[from] jiff::Error),
}

/// How the secure port encrypts.
pub struct Tls {
    pub(super) config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads a certificate, with those of its issuers behind it, and its key.
    pub async fn read(host: &Host, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let wrong = |path: &Path, why: String| TlsError::Pem { path: path.to_owned(), why };
        let text = read(host, certificate).await?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(certificate, "no certificate".to_owned()));
        }
        let text = read(host, key).await?;
        // The error may quote the file, and the file is a key.
        let key =
            PrivateKeyDer::from_pem_slice(&text).map_err(|_| wrong(key, "no private key".to_owned()))?;
        Self::new(chain, key)
    }

    /// Makes a certificate that lasts as long as the process, for clients that do not verify it.
    pub fn self_signed(host: &Host, name: &str, address: IpAddr) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = params(host.clock.now(), name, address)?.self_signed(&key)?;
        let private =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| rustls::Error::General(why.into()))?;
        Self::new(vec![certificate.der().clone()], private)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }
}

async fn read(host: &Host, path: &Path) -> Result<Vec<u8>, TlsError> {
    host.disk.read(path).await.map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

/// Valid from yesterday, for clocks that disagree a little, for a year.
fn params(now: Timestamp, name: &str, address: IpAddr) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    let specific = Some(address).filter(|address| !address.is_unspecified() && !address.is_loopback());
    params.subject_alt_names.extend(loopback.into_iter().chain(specific).map(SanType::IpAddress));
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = now.to_zoned(TimeZone::UTC).date();
    let date = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = date(today.checked_sub(Span::new().days(1))?);
    params.not_after = date(today.checked_add(Span::new().years(1))?);
    Ok(params)
}
