//! Where upstream's own types differ from what clients see of them: the order of fields, and what belongs to whom.

use super::go::{Fields, Tree};

const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const SECURITY_CONTEXT: &str = "SecurityContext";

/// What clients say of a pod and upstream keeps in its security context, before everything else there.
const OF_THE_HOST: [&str; 5] = ["HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers"];
/// Another spelling of `ServiceAccountName`.
const DEPRECATED: &str = "DeprecatedServiceAccount";

/// Fields that stand elsewhere: their type, their name, and the one that they follow.
const MOVED: [(&str, &str, &str); 7] = [
    (POD_SPEC, "SetHostnameAsFQDN", "Subdomain"),
    (POD_SPEC, "PreemptionPolicy", "Priority"),
    (POD_SPEC, "Overhead", "RuntimeClassName"),
    ("io.k8s.api.core.v1.PodSecurityContext", "FSGroupChangePolicy", "FSGroup"),
    ("io.k8s.api.core.v1.VolumeSource", "Quobyte", "RBD"),
    ("io.k8s.api.core.v1.PersistentVolumeSource", "Quobyte", "RBD"),
    ("io.k8s.api.core.v1.PersistentVolumeSource", "FlexVolume", "ISCSI"),
];

/// Whether upstream fills in a field that nobody has set.
pub fn is_always_there(type_name: &str, field: &str) -> bool {
    type_name == POD_SPEC && field == SECURITY_CONTEXT
}

/// Turns the fields of a type, as clients see them, into upstream's.
pub fn arrange(type_name: &str, fields: &mut Fields) {
    for (_, field, before) in MOVED.iter().filter(|(of, ..)| *of == type_name) {
        let position = |name: &str, fields: &Fields| fields.iter().position(|(title, _)| title == name);
        let Some(from) = position(field, fields) else { continue };
        let moved = fields.remove(from);
        let to = position(before, fields).map_or(from, |before| before + 1);
        fields.insert(to, moved);
    }
    if type_name == POD_SPEC {
        fields.retain(|(title, _)| title != DEPRECATED);
        let of_the_host: Fields =
            fields.extract_if(.., |(title, _)| OF_THE_HOST.contains(&title.as_str())).collect();
        let context = fields.iter_mut().find(|(title, _)| title == SECURITY_CONTEXT);
        if let Some((_, Tree::Fields(context))) = context {
            let rank = |title: &str| OF_THE_HOST.iter().position(|name| *name == title);
            let mut first = of_the_host;
            first.sort_by_key(|(title, _)| rank(title));
            context.splice(..0, first);
        }
    }
}
