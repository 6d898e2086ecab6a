//! Names inside certificates.

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::auth::certificate::holder;

fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = Default::default();
    params.not_after = rcgen::date_time_ymd(2030, 2, 3);
    for (kind, name) in names {
        params.distinguished_name.push(kind.clone(), *name);
    }
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

#[test]
fn user_and_groups() {
    let found = holder(&certificate(&[
        (DnType::OrganizationName, "system:masters"),
        (DnType::CountryName, "DE"),
        (DnType::CommonName, "jörg"),
    ]));
    let found = found.unwrap();
    assert_eq!(found.user.name, "jörg");
    assert_eq!(found.user.groups, ["system:masters", "system:authenticated"]);
    let credential = &found.user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(credential.starts_with("X509SHA256=") && credential.len() == 75, "{credential}");
    assert_eq!(found.until.to_string(), "2030-02-03T00:00:00Z");
}

#[test]
fn the_uid_of_kubernetes() {
    let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let found = holder(&certificate(&[(uid, "42"), (DnType::CommonName, "x")])).unwrap();
    assert_eq!((found.user.uid.as_str(), found.user.name.as_str()), ("42", "x"));
}

#[test]
fn nobody() {
    assert_eq!(holder(&certificate(&[(DnType::OrganizationName, "g")])), None, "no common name");
    let whole = certificate(&[(DnType::CommonName, "x")]);
    for length in 0..whole.len() / 2 {
        assert_eq!(holder(&whole[..length]), None, "cut after {length} bytes");
    }
    assert_eq!(holder(b"no certificate at all"), None);
}

#[test]
fn several_groups() {
    let pem = include_bytes!("../testdata/two-groups.pem");
    let found = holder(&CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    assert_eq!(found.user.name, "ann");
    assert_eq!(found.user.groups, ["dev", "ops", "system:authenticated"]);
}
