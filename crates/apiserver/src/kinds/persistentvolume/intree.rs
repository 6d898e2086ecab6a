//! Sources of the plugins that were part of Kubernetes. Nothing here mounts them, but objects that name them are checked
//! for what has to be there.

use serde_json::Value;

use crate::field::Invalid;
use crate::kinds::check;

/// A source, where complaints about it point, and what it must have.
struct Rule {
    source: &'static str,
    at: &'static str,
    required: &'static [&'static str],
}

const fn rule(source: &'static str, at: &'static str, required: &'static [&'static str]) -> Rule {
    Rule { source, at, required }
}

const RULES: [Rule; 17] = [
    rule("gcePersistentDisk", "persistentDisk", &["pdName"]),
    rule("awsElasticBlockStore", "awsElasticBlockStore", &["volumeID"]),
    rule("glusterfs", "glusterfs", &["endpoints", "path"]),
    rule("rbd", "rbd", &["monitors", "image"]),
    rule("cephfs", "cephfs", &["monitors"]),
    rule("iscsi", "iscsi", &["targetPortal", "iqn"]),
    rule("cinder", "cinder", &["volumeID"]),
    rule("flexVolume", "flexVolume", &["driver"]),
    rule("azureFile", "azureFile", &["secretName", "shareName"]),
    rule("vsphereVolume", "vsphereVolume", &["volumePath"]),
    rule("photonPersistentDisk", "photonPersistentDisk", &["pdID"]),
    rule("portworxVolume", "portworxVolume", &["volumeID"]),
    rule("scaleIO", "scaleIO", &["gateway", "system", "volumeName"]),
    rule("storageos", "storageos", &["volumeName"]),
    rule("quobyte", "quobyte", &["volume"]),
    rule("gitRepo", "gitRepo", &["repository"]),
    rule("azureDisk", "azureDisk", &["diskName", "diskURI"]),
];
/// Units of a target.
const UNITS: std::ops::RangeInclusive<i64> = 0..=255;

/// What is wrong with a source at `field`, which is the spec of a volume or a volume of a pod.
pub fn errors(field: &str, source: &str, spec: &Value) -> Vec<Invalid> {
    // Upstream spells this one in two ways.
    let source = if source == "cephFS" { "cephfs" } else { source };
    let given = &spec[source];
    let mut errors = Vec::new();
    if source == "quobyte" && is_empty(&given["registry"]) {
        let why = "must be a host:port pair or multiple pairs separated by commas";
        errors.push(Invalid::required(format!("{field}.quobyte.registry"), why));
    }
    for Rule { at, required, .. } in RULES.iter().filter(|rule| rule.source == source) {
        let missing = required.iter().filter(|name| is_empty(&given[**name]));
        errors.extend(missing.map(|name| Invalid::required(format!("{field}.{at}.{name}"), "")));
    }
    if source == "iscsi" {
        errors.extend(unit_error(&format!("{field}.iscsi.lun"), &given["lun"]));
    }
    if source == "flocker" && is_empty(&given["datasetName"]) && is_empty(&given["datasetUUID"]) {
        let why = "one of datasetName and datasetUUID is required";
        errors.push(Invalid::required(format!("{field}.flocker"), why));
    }
    if source == "fc" {
        errors.extend(fibre_channel_errors(&format!("{field}.fc"), given));
    }
    errors
}

fn unit_error(at: &str, unit: &Value) -> Option<Invalid> {
    let unit = unit.as_i64().filter(|unit| !UNITS.contains(unit))?;
    Some(Invalid::invalid(at, unit, check::range_text(*UNITS.start(), *UNITS.end())))
}

fn fibre_channel_errors(at: &str, given: &Value) -> Vec<Invalid> {
    let (targets, field) = (&given["targetWWNs"], format!("{at}.targetWWNs"));
    let mut errors = Vec::new();
    match (is_empty(targets), is_empty(&given["wwids"])) {
        (true, true) => {
            let why = "must specify either targetWWNs or wwids, but not both";
            errors.push(Invalid::required(field, why));
        }
        (false, false) => {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            errors.push(Invalid::invalid(field, targets.clone(), why));
        }
        _ => {}
    }
    if !is_empty(targets) {
        let at = format!("{at}.lun");
        errors.extend(match &given["lun"] {
            Value::Null => Some(Invalid::required(at, "lun is required if targetWWNs is specified")),
            unit => unit_error(&at, unit),
        });
    }
    errors
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As upstream's server answered.
    #[test]
    fn what_must_be_there() {
        let table = [
            (
                "iscsi",
                json!({"lun": -1}),
                vec![
                    "spec.iscsi.targetPortal: Required value",
                    "spec.iscsi.iqn: Required value",
                    "spec.iscsi.lun: Invalid value: -1: must be between 0 and 255, inclusive",
                ],
            ),
            ("iscsi", json!({"targetPortal": "a", "iqn": "b", "lun": 0}), vec![]),
            ("gcePersistentDisk", json!({}), vec!["spec.persistentDisk.pdName: Required value"]),
            (
                "rbd",
                json!({"monitors": []}),
                vec!["spec.rbd.monitors: Required value", "spec.rbd.image: Required value"],
            ),
            (
                "fc",
                json!({}),
                vec![
                    "spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both",
                ],
            ),
            ("fc", json!({"wwids": ["a"], "lun": 300}), vec![]),
            (
                "fc",
                json!({"wwids": ["a"], "targetWWNs": ["b"]}),
                vec![
                    "spec.fc.targetWWNs: Invalid value: [\"b\"]: targetWWNs and wwids can not be specified simultaneously",
                    "spec.fc.lun: Required value: lun is required if targetWWNs is specified",
                ],
            ),
            (
                "fc",
                json!({"targetWWNs": ["b"], "lun": 256}),
                vec!["spec.fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"],
            ),
            ("fc", json!({"targetWWNs": ["b"], "lun": 0}), vec![]),
            (
                "flocker",
                json!({}),
                vec!["spec.flocker: Required value: one of datasetName and datasetUUID is required"],
            ),
            ("cephFS", json!({}), vec!["spec.cephfs.monitors: Required value"]),
            (
                "quobyte",
                json!({}),
                vec![
                    "spec.quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas",
                    "spec.quobyte.volume: Required value",
                ],
            ),
            (
                "scaleIO",
                json!({"system": "a"}),
                vec!["spec.scaleIO.gateway: Required value", "spec.scaleIO.volumeName: Required value"],
            ),
        ];
        for (source, given, want) in table {
            let found: Vec<String> =
                errors("spec", source, &json!({(source): given})).iter().map(ToString::to_string).collect();
            assert_eq!(found, want, "{source} {given}");
        }
    }
}
