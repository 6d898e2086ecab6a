//! Names: what is valid, and the ones that are computed.

use sha2::{Digest, Sha256};

/// Longest DNS-1123 subdomain.
const SUBDOMAIN_MAX: usize = 253;
/// Longest DNS-1123 label, label value and name part of a qualified name.
const LABEL_MAX: usize = 63;
/// Longest name of a port.
const PORT_NAME_MAX: usize = 15;

const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const UNDERSCORED_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_TEXT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn lower_alnum(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn label_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|c| lower_alnum(*c) || *c == b'-')
        && bytes.first().is_some_and(|c| lower_alnum(*c))
        && bytes.last().is_some_and(|c| lower_alnum(*c))
}

fn name_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// What is wrong with a DNS-1123 subdomain, in upstream's words; empty when valid.
pub fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(format!("must be no more than {SUBDOMAIN_MAX} characters"));
    }
    if !text.split('.').all(label_shape) {
        errors.push(SUBDOMAIN_TEXT.into());
    }
    errors
}

/// What is wrong with a DNS-1123 label.
pub fn label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !label_shape(text) {
        let dotted = text.split('.').all(label_shape);
        errors.push(if dotted { "must not contain dots" } else { LABEL_TEXT }.into());
    }
    errors
}

/// What is wrong with a DNS-1035 label, which starts with a letter.
pub fn label_1035_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !label_shape(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(LABEL_1035_TEXT.into());
    }
    errors
}

/// What is wrong with a label or annotation key (`prefix/name`).
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".into());
            } else {
                // Upstream measures these in another place, and calls characters bytes there.
                let wrong =
                    subdomain_errors(prefix).into_iter().map(|e| e.replace("253 characters", "253 bytes"));
                errors.extend(wrong.map(|e| format!("prefix part {e}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !name_shape(name) {
        errors.push(QUALIFIED_TEXT.into());
    }
    errors
}

/// What is wrong with a label value.
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !text.is_empty() && !name_shape(text) {
        errors.push(VALUE_TEXT.into());
    }
    errors
}

/// What is wrong with a key of a ConfigMap or Secret, which becomes a file name.
pub fn config_key_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(format!("must be no more than {SUBDOMAIN_MAX} characters"));
    }
    let shape = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    if text.is_empty() || !text.bytes().all(shape) {
        errors.push(CONFIG_KEY_TEXT.into());
    }
    match text {
        "." | ".." => errors.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => errors.push("must not start with '..'".into()),
        _ => {}
    }
    errors
}

/// What is wrong with a domain in which underscores are allowed, as resolvers do.
pub fn underscored_subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(format!("must be no more than {SUBDOMAIN_MAX} characters"));
    }
    let part = |part: &str| {
        let bytes = part.strip_prefix('_').unwrap_or(part).as_bytes();
        bytes.iter().all(|c| lower_alnum(*c) || matches!(c, b'-' | b'_'))
            && bytes.first().is_some_and(|c| lower_alnum(*c))
            && bytes.last().is_some_and(|c| lower_alnum(*c))
    };
    if !text.split('.').all(part) {
        errors.push(UNDERSCORED_TEXT.into());
    }
    errors
}

/// What is wrong with a name of a port.
pub fn port_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > PORT_NAME_MAX {
        errors.push(format!("must be no more than {PORT_NAME_MAX} characters"));
    }
    if text.is_empty() || !text.bytes().all(|c| lower_alnum(c) || c == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.bytes().any(|c| c.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".into());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".into());
    }
    errors
}

/// What is wrong with a name that has to fit into a URL and nothing else, as those of roles.
pub fn path_segment_errors(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => {
            let found = ["/", "%"].into_iter().filter(|part| text.contains(part));
            found.map(|part| format!("may not contain '{part}'")).collect()
        }
    }
}

/// Upstream's rule for lease names and finalizers: anything but letters, digits and dashes becomes a dash.
pub fn sanitized(text: &str) -> String {
    let mut name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    name
}

fn hex_sha256(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part.as_bytes()));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Name of the VolumeAttachment for a volume on a node: no separators between the parts.
pub fn attachment(volume_handle: &str, driver: &str, node: &str) -> String {
    format!("csi-{}", hex_sha256(&[volume_handle, driver, node]))
}

/// Directory of a volume below the kubelet's staging area.
pub fn staging_hash(volume_handle: &str) -> String {
    hex_sha256(&[volume_handle])
}

/// The name under which a volume appears in `volumesAttached` and `volumesInUse`.
pub fn unique_volume(driver: &str, volume_handle: &str) -> String {
    format!("{}/{driver}^{volume_handle}", crate::keys::CSI_PLUGIN)
}

/// Driver and handle of a unique volume name. Handles may contain the separator, driver names cannot.
pub fn split_unique_volume(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(crate::keys::CSI_PLUGIN)?.strip_prefix('/')?.split_once('^')
}

/// The name under which the kubelet knows a CSI volume that a pod itself describes: it is that pod's alone.
pub fn inline_volume(pod_uid: &str, volume: &str) -> String {
    format!("{}/{pod_uid}-{volume}", crate::keys::CSI_PLUGIN)
}

/// The volume id of a CSI volume that a pod itself describes.
pub fn inline_handle(pod_uid: &str, volume: &str) -> String {
    format!("csi-{}", hex_sha256(&[pod_uid, volume]))
}

/// Name of a provisioned volume.
pub fn provisioned_volume(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachment_name_is_a_plain_concatenation() {
        assert_eq!(attachment("a", "b", "c"), format!("csi-{}", hex_sha256(&["abc"])));
        assert_eq!(attachment("a", "b", "c").len(), 4 + 64);
        assert_eq!(staging_hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn unique_names_split_at_the_first_caret() {
        let name = unique_volume("d.example", "pool^7");
        assert_eq!(name, "kubernetes.io/csi/d.example^pool^7");
        assert_eq!(split_unique_volume(&name), Some(("d.example", "pool^7")));
        assert_eq!(split_unique_volume("kubernetes.io/nfs/x"), None);
    }

    #[test]
    fn sanitized_never_ends_in_a_dash() {
        assert_eq!(sanitized("hostpath.csi.k8s.io"), "hostpath-csi-k8s-io");
        assert_eq!(sanitized("odd."), "odd-X");
    }

    #[test]
    fn name_rules() {
        for good in ["a", "a-b", "a.b-c", "0a"] {
            assert_eq!(subdomain_errors(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a..b", "a_b", &"a".repeat(254)] {
            assert!(!subdomain_errors(bad).is_empty(), "{bad}");
        }
        assert!(label_1035_errors("a1-b").is_empty() && label_1035_errors("1a").len() == 1);
        assert!(label_errors("a.b").len() == 1 && label_errors("a").is_empty());
        assert!(qualified_name_errors("example.com/My_Name").is_empty());
        for bad in ["", "/a", "a/", "a/b/c", "-a"] {
            assert!(!qualified_name_errors(bad).is_empty(), "{bad}");
        }
        assert!(label_value_errors("").is_empty() && !label_value_errors("a b").is_empty());
        for good in ["a", ".a", "A_b-c.d"] {
            assert_eq!(config_key_errors(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", "a/b", ".", "..", "..a"] {
            assert_eq!(config_key_errors(bad).len(), 1, "{bad}");
        }
    }
}
