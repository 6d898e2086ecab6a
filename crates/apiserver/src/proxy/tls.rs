//! TLS between the API server and kubelets: both show a certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme};

use crate::certs::Credentials;
use crate::tls::TlsError;

/// A kubelet's own server: only clients with a certificate of the authority, PEM, get in.
pub fn kubelet_server(authority: &str, server: &Credentials) -> Result<Arc<ServerConfig>, TlsError> {
    let (provider, roots) = (Arc::new(ring::default_provider()), Arc::new(trusting(authority)?));
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
    let (chain, key) = identity(server)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

/// How this server calls kubelets: whom it believes, and how it shows who it is.
pub struct KubeletClient {
    pub(super) verified: Arc<ClientConfig>,
    /// For clients who want an answer from whoever is there.
    pub(super) anybody: Arc<ClientConfig>,
}

/// Without an authority any kubelet is believed, as upstream does without `--kubelet-certificate-authority`.
pub fn kubelet_client(
    authority: Option<&str>,
    client: Option<&Credentials>,
) -> Result<KubeletClient, TlsError> {
    let anybody = believing(None, client)?;
    let verified = match authority {
        Some(_) => believing(authority, client)?,
        None => anybody.clone(),
    };
    Ok(KubeletClient { verified, anybody })
}

fn believing(authority: Option<&str>, client: Option<&Credentials>) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match authority {
        Some(authority) => builder.with_root_certificates(trusting(authority)?),
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody { provider })),
    };
    let config = match client {
        Some(client) => {
            let (chain, key) = identity(client)?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn trusting(authority: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    Ok(roots)
}

fn identity(own: &Credentials) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes()).collect::<Result<_, _>>()?;
    Ok((chain, PrivateKeyDer::from_pem_slice(own.key.as_bytes())?))
}

/// Believes any kubelet: its certificate is usually signed by itself. What is sent can then be read by whoever sits
/// between this server and the node.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
