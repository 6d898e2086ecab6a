//! Addresses of machines.

use std::net::IpAddr;

use crate::field::Invalid;

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

pub fn ip(field: &str, value: &str) -> Option<Invalid> {
    let wrong = match value.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address"
        }
        Ok(_) => return None,
        Err(_) if without_zeros(value).parse::<IpAddr>().is_ok() => "must not have leading 0s",
        Err(_) => NO_ADDRESS,
    };
    Some(Invalid::invalid(field, value, wrong))
}

/// A range of addresses.
pub fn cidr(field: &str, value: &str) -> Option<Invalid> {
    let fine = value.split_once('/').is_some_and(|(address, bits)| {
        let most = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    });
    (!fine).then(|| Invalid::invalid(field, value, NO_RANGE))
}

/// Some programs read a leading zero as a sign of octal, so an address with one is refused, in words of its own.
fn without_zeros(value: &str) -> String {
    let part = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    value.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let table = [
            ("10.0.0.1", None),
            ("fe80::1", None),
            ("10.0.0.01", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("10.0.0", Some(NO_ADDRESS)),
            ("", Some(NO_ADDRESS)),
        ];
        for (value, want) in table {
            assert_eq!(ip("f", value).map(|error| error.detail), want.map(str::to_owned), "{value}");
        }
    }
}
