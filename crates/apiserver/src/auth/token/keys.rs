//! The keys that sign service-account tokens and those that check them.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};

use crate::auth::der::{BIT_STRING, INTEGER, OBJECT_ID, OCTET_STRING, Reader, SEQUENCE, element};
use crate::certs::{CertError, write_private};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x22];
const NULL: [u8; 2] = [5, 0];

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("read key file `{path}`: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("key file `{path}`: {why}")]
    Content { path: PathBuf, why: &'static str },
    #[error("make a signing key: {0}")]
    Make(#[from] rcgen::Error),
    #[error(transparent)]
    Keep(#[from] CertError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

impl Algorithm {
    /// As it stands in a token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }
}

/// Checks tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Digest of the key, as upstream names keys.
    pub id: String,
    pub algorithm: Algorithm,
    /// A point of the curve, or modulus and exponent.
    bytes: Vec<u8>,
}

/// Makes tokens.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

// By hand: a key must not reach a log.
impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl PublicKey {
    fn new(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let object = |id: &[u8]| element(OBJECT_ID, id);
        let kind = match algorithm {
            Algorithm::Rs256 => [object(RSA), NULL.to_vec()].concat(),
            Algorithm::Es256 => [object(EC), object(P256)].concat(),
            Algorithm::Es384 => [object(EC), object(P384)].concat(),
        };
        let whole = [element(SEQUENCE, &kind), element(BIT_STRING, &[&[0], bytes].concat())].concat();
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &element(SEQUENCE, &whole)));
        Self { id, algorithm, bytes: bytes.to_vec() }
    }

    /// From the form that certificates and public key files have.
    fn from_spki(der: &[u8]) -> Option<Self> {
        let mut outer = Reader::new(der).inside(SEQUENCE)?;
        let mut kind = outer.inside(SEQUENCE)?;
        let id = kind.content(OBJECT_ID)?;
        // The first byte counts unused bits, of which a key has none.
        let bytes = outer.content(BIT_STRING)?.strip_prefix(&[0])?;
        let (algorithm, is_key) = match id {
            RSA => (Algorithm::Rs256, true),
            EC => match kind.content(OBJECT_ID)? {
                P256 => (Algorithm::Es256, is_point(bytes, 32)),
                P384 => (Algorithm::Es384, is_point(bytes, 48)),
                _ => return None,
            },
            _ => return None,
        };
        is_key.then(|| Self::new(algorithm, bytes))
    }

    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn signature::VerificationAlgorithm = match self.algorithm {
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok()
    }

    /// As others find it at `/openid/v1/jwks`.
    pub fn to_jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = json!({"use": "sig", "kid": self.id, "alg": self.algorithm.name()});
        if self.algorithm == Algorithm::Rs256 {
            let mut numbers = Reader::new(&self.bytes).inside(SEQUENCE).unwrap_or(Reader::new(&[]));
            let mut number = || numbers.content(INTEGER).unwrap_or_default();
            let (modulus, exponent) = (number(), number());
            let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
            (jwk["kty"], jwk["n"], jwk["e"]) = ("RSA".into(), text(modulus).into(), text(exponent).into());
        } else {
            // See `is_point`.
            let (x, y) = self.bytes[1..].split_at(self.bytes.len() / 2);
            let curve = if self.algorithm == Algorithm::Es256 { "P-256" } else { "P-384" };
            (jwk["kty"], jwk["crv"], jwk["x"], jwk["y"]) =
                ("EC".into(), curve.into(), text(x).into(), text(y).into());
        }
        jwk
    }
}

impl SigningKey {
    /// The key kept in `dir`/pki, made on first use.
    pub fn open(dir: &Path) -> Result<Self, KeyError> {
        let path = dir.join("pki").join("sa.key");
        if !path.exists() {
            let key = rcgen::KeyPair::generate()?;
            if let Some(folder) = path.parent() {
                bowline_host::real::private_dir(folder)
                    .map_err(|source| KeyError::Read { path: folder.into(), source })?;
            }
            write_private(&path, key.serialize_pem().as_bytes())?;
        }
        Self::read(&path)
    }

    /// A key that nobody keeps.
    pub fn ephemeral() -> Result<Self, KeyError> {
        let key = rcgen::KeyPair::generate()?;
        let why = "the key that was just made cannot be read";
        Self::from_pem(key.serialize_pem().as_bytes())
            .ok_or_else(|| KeyError::Content { path: PathBuf::new(), why })
    }

    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let why =
            "there is no private RSA key of at least 2048 bits and no private EC key on P-256 or P-384 in it";
        Self::from_pem(&content(path)?).ok_or_else(|| KeyError::Content { path: path.to_owned(), why })
    }

    fn from_pem(pem: &[u8]) -> Option<Self> {
        sections(pem).into_iter().find_map(|(kind, der)| Self::from_section(kind, &der))
    }

    fn from_section(kind: SectionKind, der: &[u8]) -> Option<Self> {
        match kind {
            SectionKind::RsaPrivateKey => Self::rsa(RsaKeyPair::from_der(der).ok()?),
            SectionKind::EcPrivateKey => [P256, P384].iter().find_map(|curve| Self::ec(&wrapped(curve, der))),
            SectionKind::PrivateKey => match RsaKeyPair::from_pkcs8(der) {
                Ok(pair) => Self::rsa(pair),
                Err(_) => Self::ec(der),
            },
            _ => None,
        }
    }

    fn rsa(pair: RsaKeyPair) -> Option<Self> {
        let public = PublicKey::new(Algorithm::Rs256, pair.public().as_ref());
        Some(Self { pair: Pair::Rsa(Box::new(pair)), public })
    }

    fn ec(der: &[u8]) -> Option<Self> {
        let curves = [
            (Algorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            (Algorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
        ];
        curves.into_iter().find_map(|(algorithm, signing)| {
            let pair = EcdsaKeyPair::from_pkcs8(signing, der, &SystemRandom::new()).ok()?;
            let public = PublicKey::new(algorithm, pair.public_key().as_ref());
            Some(Self { pair: Pair::Ec(Box::new(pair)), public })
        })
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// `None` if the machine has no randomness to offer.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ec(pair) => pair.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

/// Every key of a file: public ones, those of private ones, and those of certificates.
pub fn read_public(path: &Path) -> Result<Vec<PublicKey>, KeyError> {
    let keys: Vec<PublicKey> = sections(&content(path)?)
        .into_iter()
        .filter_map(|(kind, der)| match kind {
            SectionKind::PublicKey => PublicKey::from_spki(&der),
            SectionKind::Certificate => PublicKey::from_spki(&certificate_key(&der)?),
            private => SigningKey::from_section(private, &der).map(|key| key.public),
        })
        .collect();
    let why = "there is no RSA key and no EC key on P-256 or P-384 in it";
    if keys.is_empty() { Err(KeyError::Content { path: path.to_owned(), why }) } else { Ok(keys) }
}

/// Whether these bytes are a point of a curve with coordinates of this length: a four, then both of them. Points may
/// be written shorter, which nothing here reads.
fn is_point(bytes: &[u8], coordinate: usize) -> bool {
    bytes.first() == Some(&4) && bytes.len() == 1 + 2 * coordinate
}

fn content(path: &Path) -> Result<Vec<u8>, KeyError> {
    std::fs::read(path).map_err(|source| KeyError::Read { path: path.to_owned(), source })
}

fn sections(pem: &[u8]) -> Vec<(SectionKind, Vec<u8>)> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

/// The seventh element of a certificate's body.
fn certificate_key(der: &[u8]) -> Option<Vec<u8>> {
    let mut body = Reader::new(der).inside(SEQUENCE)?.inside(SEQUENCE)?;
    if body.peek() != Some(INTEGER) {
        body.any()?;
    }
    (0..5).try_for_each(|_| body.any().map(drop))?;
    body.content(SEQUENCE).map(|key| element(SEQUENCE, key))
}

/// An EC key in its older form, in the form that is read here.
fn wrapped(curve: &[u8], key: &[u8]) -> Vec<u8> {
    let kind = [element(OBJECT_ID, EC), element(OBJECT_ID, curve)].concat();
    let parts = [element(INTEGER, &[0]), element(SEQUENCE, &kind), element(OCTET_STRING, key)];
    element(SEQUENCE, &parts.concat())
}
