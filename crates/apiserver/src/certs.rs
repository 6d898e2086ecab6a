//! The certificate authority of a server: made once, kept, and used to issue everything else afresh.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::{Span, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// The authority and all it issues outlast any process; certificates are issued anew at every start.
const VALID_YEARS: i64 = 10;
const AUTHORITY_NAME: &str = "bowline-ca";
/// Names under which the server is reached from its own machine and, by convention, from inside a cluster.
const SERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
const SERVER_ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];

#[derive(Debug, thiserror::Error)]
pub enum CertError {
    #[error("{what} {path}: {source}")]
    File { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the time is out of range: {0}")]
    Time(#[from] jiff::Error),
}

/// A certificate and its key, both PEM.
pub struct Credentials {
    pub certificate: String,
    pub key: String,
}

// By hand: a key must not reach a log.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Signs what the server and its clients show each other.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority kept in `dir`/pki, made on first use.
    pub fn open(dir: &Path, now: Timestamp) -> Result<Self, CertError> {
        let pki = dir.join("pki");
        bowline_host::real::private_dir(&pki).map_err(|source| CertError::File {
            what: "create",
            path: pki.clone(),
            source,
        })?;
        let (key_path, certificate_path) = (pki.join("ca.key"), pki.join("ca.crt"));
        // The key comes first: a certificate can be made again from it.
        let key = match read(&key_path)? {
            Some(pem) => KeyPair::from_pem(&pem)?,
            None => {
                let key = KeyPair::generate()?;
                write_private(&key_path, key.serialize_pem().as_bytes())?;
                key
            }
        };
        let params = authority_params(now)?;
        let certificate = match read(&certificate_path)? {
            Some(pem) => pem,
            None => {
                let pem = params.self_signed(&key)?.pem();
                write_private(&certificate_path, pem.as_bytes())?;
                pem
            }
        };
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// An authority that nobody keeps.
    pub fn ephemeral(now: Timestamp) -> Result<Self, CertError> {
        let (key, params) = (KeyPair::generate()?, authority_params(now)?);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// The certificate clients trust, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// For this machine, and for any further addresses the server is bound to.
    pub fn issue_server(&self, further: &[IpAddr], now: Timestamp) -> Result<Credentials, CertError> {
        let mut params = CertificateParams::new(SERVER_NAMES.map(str::to_owned))?;
        let fixed = SERVER_ADDRESSES.iter().filter_map(|address| address.parse().ok());
        for address in fixed.chain(further.iter().copied()) {
            let name = SanType::IpAddress(address);
            if !params.subject_alt_names.contains(&name) {
                params.subject_alt_names.push(name);
            }
        }
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth, now)
    }

    /// A client: its user name and its group.
    pub fn issue_client(&self, user: &str, group: &str, now: Timestamp) -> Result<Credentials, CertError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, user);
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth, now)
    }

    /// Who may do everything.
    pub fn issue_admin(&self, now: Timestamp) -> Result<Credentials, CertError> {
        self.issue_client("kubernetes-admin", "system:masters", now)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
        now: Timestamp,
    ) -> Result<Credentials, CertError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now)?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn authority_params(now: Timestamp) -> Result<CertificateParams, CertError> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name = Default::default();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    set_validity(&mut params, now)?;
    Ok(params)
}

/// From yesterday, for clocks that disagree a little.
fn set_validity(params: &mut CertificateParams, now: Timestamp) -> Result<(), CertError> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let (from, to) =
        (today.checked_sub(Span::new().days(1))?, today.checked_add(Span::new().years(VALID_YEARS))?);
    let date = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    (params.not_before, params.not_after) = (date(from), date(to));
    Ok(())
}

fn read(path: &Path) -> Result<Option<String>, CertError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CertError::File { what: "read", path: path.to_owned(), source }),
    }
}

/// Replaces a file at once, readable by its owner alone from the first moment.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), CertError> {
    let written = bowline_host::real::write_private(path, content);
    written.map_err(|source| CertError::File { what: "write", path: path.to_owned(), source })
}
