//! Certificates of clients: any is let through the handshake, as upstream does, and judged afterwards. A client with a wrong
//! one is answered with 401, not with a broken connection.

use std::sync::Arc;

use http::request::Parts;
use jiff::Timestamp;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{NoClientAuth, VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::super::review::{CertificateUser, UntrustedCertificate, User};

/// The user of a client certificate, DER, that TLS has verified.
pub type CertificateReader = fn(&[u8]) -> Option<User>;

/// What a client has shown in its handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    Nothing,
    User(Arc<User>),
    /// A certificate of another authority, or one that has expired.
    Untrusted,
}

impl Shown {
    /// Lets those who review the request know.
    pub fn mark(&self, request: &mut Parts) {
        match self {
            Self::Nothing => {}
            Self::User(user) => drop(request.extensions.insert(CertificateUser(user.clone()))),
            Self::Untrusted => drop(request.extensions.insert(UntrustedCertificate)),
        }
    }
}

/// Judges the certificates of clients; without authorities none is asked for.
#[derive(Clone)]
pub(super) struct Judge(Option<Authorities>);

#[derive(Clone)]
struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    user_of: CertificateReader,
}

impl Judge {
    pub fn none() -> Self {
        Self(None)
    }

    pub fn trusting(roots: RootCertStore, user_of: CertificateReader) -> Result<Self, VerifierBuilderError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.allow_unauthenticated().build()?;
        Ok(Self(Some(Authorities { verifier, user_of })))
    }

    pub fn for_handshake(&self) -> Arc<dyn ClientCertVerifier> {
        match &self.0 {
            Some(authorities) => Arc::new(Lenient(authorities.verifier.clone())),
            None => Arc::new(NoClientAuth),
        }
    }

    pub fn judge(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Shown {
        let (Some(authorities), Some((own, between))) = (&self.0, chain.split_first()) else {
            return Shown::Nothing;
        };
        let now = UnixTime::since_unix_epoch(now.as_duration().unsigned_abs());
        match authorities.verifier.verify_client_cert(own, between, now) {
            // A certificate without a name is anonymous.
            Ok(_) => (authorities.user_of)(own).map_or(Shown::Nothing, |user| Shown::User(Arc::new(user))),
            Err(error) => {
                tracing::debug!(%error, "a client certificate is not trusted");
                Shown::Untrusted
            }
        }
    }
}

/// That the client has the key is proven all the same.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
