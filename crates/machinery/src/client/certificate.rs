//! The certificate that connections show, read again from its files as it rotates.
//!
//! Those that stand open show the old one until they end, and a server goes on refusing their requests once it has expired.
//! So a new certificate is the reason for new connections, as client-go has it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bowline_host::Disk;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::sign::CertifiedKey;

use super::one_line;
use crate::keypair;

/// How often the files are looked at; client-go does so every five minutes.
const REREAD: Duration = Duration::from_secs(60);

/// A certificate and its key in two files, or both in one.
pub(super) struct Certificate {
    disk: Arc<dyn Disk>,
    certificate: PathBuf,
    key: PathBuf,
    /// When the files were read; `None` when the certificate is in doubt.
    read: Mutex<Option<Instant>>,
    shown: Arc<Shown>,
}

/// What the next handshake shows.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl Certificate {
    pub async fn open(disk: Arc<dyn Disk>, certificate: PathBuf, key: PathBuf) -> Result<Self, String> {
        let first = keypair::read(&*disk, &certificate, &key).await.map_err(|error| one_line(&error))?;
        let shown = Arc::new(Shown(RwLock::new(Arc::new(first))));
        Ok(Self { disk, certificate, key, read: Mutex::new(Some(Instant::now())), shown })
    }

    pub fn resolver(&self) -> Arc<dyn ResolvesClientCert> {
        self.shown.clone()
    }

    /// Reads the files if it is time. Says whether they hold another certificate by now, which new connections will show.
    /// While they hold none that can be used, the last one that could stays.
    pub async fn renewed(&self) -> bool {
        let mut last = self.read.lock().await;
        if last.is_some_and(|read| read.elapsed() < REREAD) {
            return false;
        }
        *last = Some(Instant::now());
        match keypair::read(&*self.disk, &self.certificate, &self.key).await {
            Ok(found) => self.shown.replace(found),
            // The files may be replaced one after the other, right now.
            Err(error) => {
                tracing::warn!(error = one_line(&error), "keeping the certificate that was read before");
                false
            }
        }
    }

    /// The server refused it: the next request has it read again.
    pub async fn refused(&self) {
        *self.read.lock().await = None;
    }
}

impl Shown {
    fn replace(&self, found: CertifiedKey) -> bool {
        let mut shown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let other = shown.cert != found.cert;
        if other {
            *shown = Arc::new(found);
        }
        other
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    use super::*;

    /// PEM of a certificate and its key.
    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotated_certificate_is_read_after_a_minute_or_a_refusal() {
        let disk = bowline_host::fake::host(1).0.disk;
        let (at, of) = (Path::new("/c.crt"), Path::new("/c.key"));
        let write =
            async |path: &Path, text: &str| disk.write_atomic(path, text.as_bytes(), 0o600).await.unwrap();
        let open = async || Certificate::open(disk.clone(), at.into(), of.into()).await;
        assert!(open().await.err().unwrap().contains("/c.crt"), "absent");
        let [one, two, three] = ["one", "two", "three"].map(made);
        write(at, &one.0).await;
        write(of, &two.1).await;
        assert!(open().await.err().unwrap().contains("do not fit each other"));
        write(of, &one.1).await;
        let certificate = open().await.unwrap();
        let shown = || certificate.resolver().resolve(&[], &[]).unwrap().cert[0].clone();
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        assert_eq!(shown(), der(&one.0));

        // Key and certificate come one after the other.
        write(of, &two.1).await;
        tokio::time::advance(REREAD).await;
        assert!(!certificate.renewed().await);
        assert_eq!(shown(), der(&one.0), "the last one that could be read");
        write(at, &two.0).await;
        assert!(!certificate.renewed().await, "it is not time yet");
        tokio::time::advance(REREAD).await;
        assert!(certificate.renewed().await);
        assert_eq!(shown(), der(&two.0));

        // As upstream's kubelet has it: both in one file.
        let both = format!("{}{}", three.0, three.1);
        write(at, &both).await;
        write(of, &both).await;
        certificate.refused().await;
        assert!(certificate.renewed().await);
        assert_eq!(shown(), der(&three.0));
        certificate.refused().await;
        assert!(!certificate.renewed().await, "the same again");
    }
}
