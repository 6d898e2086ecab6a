//! Who a client certificate was made for. Whether it may be believed is TLS's business.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use ring::digest;

use super::der::{CONTEXT_0, INTEGER, OBJECT_ID, Reader, SEQUENCE, SET};
use super::user::User;

/// Last bytes of the object ids of the parts of a name.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
/// 1.3.6.1.4.1.57683.2, Kubernetes' own: the user's uid.
const UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];
const UTC_TIME: u8 = 0x17;
const BMP_STRING: u8 = 0x1e;

/// Somebody with a certificate, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub user: Arc<User>,
    pub until: Timestamp,
}

/// The user of a certificate: its common name, and its organizations as groups. `None` without a common name.
pub fn holder(certificate: &[u8]) -> Option<Holder> {
    let mut body = Reader::new(certificate).inside(SEQUENCE)?.inside(SEQUENCE)?;
    if body.peek() == Some(CONTEXT_0) {
        body.any()?;
    }
    body.content(INTEGER)?;
    body.content(SEQUENCE)?; // the algorithm of the signature
    body.content(SEQUENCE)?; // the issuer
    let mut validity = body.inside(SEQUENCE)?;
    validity.any()?;
    let until = time(validity.any()?)?;
    let mut user = subject(body.inside(SEQUENCE)?)?;
    if user.name.is_empty() {
        return None;
    }
    let fingerprint = digest::digest(&digest::SHA256, certificate);
    let hex: String = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    user.extra.insert(bowline_api::keys::CREDENTIAL_ID.into(), vec![format!("X509SHA256={hex}")]);
    Some(Holder { user: Arc::new(user.authenticated()), until })
}

/// Of several common names the last one counts, as upstream has it.
fn subject(mut names: Reader<'_>) -> Option<User> {
    let mut user = User::default();
    while let Some(mut set) = names.inside(SET) {
        while let Some(mut part) = set.inside(SEQUENCE) {
            let (id, value) = (part.content(OBJECT_ID)?, part.any()?);
            match id {
                COMMON_NAME => user.name = text(value)?,
                ORGANIZATION => user.groups.push(text(value)?),
                UID => user.uid = text(value)?,
                _ => {}
            }
        }
    }
    Some(user)
}

/// All string types but one are, for what is used in practice, UTF-8.
fn text((tag, bytes): (u8, &[u8])) -> Option<String> {
    if tag != BMP_STRING {
        return String::from_utf8(bytes.to_vec()).ok();
    }
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    String::from_utf16(&units).ok()
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn time((tag, bytes): (u8, &[u8])) -> Option<Timestamp> {
    let digits = std::str::from_utf8(bytes).ok()?.strip_suffix('Z')?;
    let (year, rest) = digits.split_at_checked(if tag == UTC_TIME { 2 } else { 4 })?;
    let year: i16 = year.parse().ok()?;
    let year = match (tag == UTC_TIME, year) {
        (false, year) => year,
        (true, 0..=49) => 2000 + year,
        (true, _) => 1900 + year,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let day = date(year, 1, 1).with().month(two(0)?).day(two(2)?).build().ok()?;
    let at = day.to_datetime(jiff::civil::Time::new(two(4)?, two(6)?, two(8)?, 0).ok()?);
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}
