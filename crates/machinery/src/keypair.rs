//! A certificate and its key from PEM files.

use std::path::{Path, PathBuf};

use bowline_host::Disk;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

#[derive(Debug, thiserror::Error)]
pub enum PemError {
    #[error("read `{path}`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{path}` holds no usable PEM: {why}")]
    Pem { path: PathBuf, why: String },
    #[error(
        "the certificate in `{certificate}` and the key in `{key}` do not fit each other or cannot be used: {why}"
    )]
    Unfit { certificate: PathBuf, key: PathBuf, why: rustls::Error },
}

/// Reads a certificate, with those of its issuers behind it, and its key. Both may stand in one file.
pub(crate) async fn read(disk: &dyn Disk, certificate: &Path, key: &Path) -> Result<CertifiedKey, PemError> {
    let chain = certificates(disk, certificate).await?;
    let text = text(disk, key).await?;
    // The error may quote the file, and the file is a key.
    let secret = PrivateKeyDer::from_pem_slice(&text).map_err(|_| wrong(key, "no private key".to_owned()))?;
    CertifiedKey::from_der(chain, secret, &rustls::crypto::ring::default_provider())
        .map_err(|why| PemError::Unfit { certificate: certificate.to_owned(), key: key.to_owned(), why })
}

/// The certificates in a file, at least one.
pub(crate) async fn certificates(
    disk: &dyn Disk,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let text = text(disk, path).await?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| wrong(path, error.to_string()))?;
    match found.is_empty() {
        true => Err(wrong(path, "no certificate".to_owned())),
        false => Ok(found),
    }
}

async fn text(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, PemError> {
    disk.read(path).await.map_err(|source| PemError::Read { path: path.to_owned(), source })
}

fn wrong(path: &Path, why: String) -> PemError {
    PemError::Pem { path: path.to_owned(), why }
}
