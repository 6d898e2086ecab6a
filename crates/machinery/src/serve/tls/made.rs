//! A certificate that lasts as long as the process, for clients that do not verify it.

use std::net::IpAddr;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::sign::CertifiedKey;

use super::TlsError;

pub(super) fn self_signed(now: Timestamp, name: &str, address: IpAddr) -> Result<CertifiedKey, TlsError> {
    let key = KeyPair::generate()?;
    let certificate = params(now, name, address)?.self_signed(&key)?;
    let private =
        PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| rustls::Error::General(why.into()))?;
    let provider = rustls::crypto::ring::default_provider();
    Ok(CertifiedKey::from_der(vec![certificate.der().clone()], private, &provider)?)
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
