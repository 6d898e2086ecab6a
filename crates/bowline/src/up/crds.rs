//! The definitions of the snapshot kinds, which upstream ships beside its controllers and not in the API server.
//!
//! They are data, in `crds/`: names, fields, rules and columns are those of external-snapshotter's v8.6 definitions, because
//! clients rely on them; a test compares each field. Descriptions, which `kubectl explain` would show, are left out.

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

const DEFINITIONS: [&str; 3] = [
    include_str!("crds/volumesnapshotclasses.json"),
    include_str!("crds/volumesnapshotcontents.json"),
    include_str!("crds/volumesnapshots.json"),
];

/// VolumeSnapshotClass, VolumeSnapshotContent and VolumeSnapshot.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>> {
    let decoded = |text: &&str| serde_json::from_str(text).context("decode a definition of a snapshot kind");
    DEFINITIONS.iter().map(decoded).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    /// Removes what people read: texts of fields, of columns and of the tool that wrote the file.
    fn without_descriptions(value: &mut Value, names: bool) {
        match value {
            Value::Object(map) => {
                if !names {
                    map.remove("description");
                }
                for (key, value) in map.iter_mut() {
                    without_descriptions(value, key == "properties" && !names);
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| without_descriptions(value, false)),
            _ => {}
        }
    }

    /// Goal: what a client of upstream's kinds may send and is shown is the same here, field by field.
    #[test]
    fn definitions_are_upstreams_without_descriptions() {
        let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.peers/snapshot-crds-v8.6.0");
        let peers = std::env::var_os("SNAPSHOT_CRDS").unwrap_or_else(|| built.into());
        for text in DEFINITIONS {
            let ours: Value = serde_json::from_str(text).expect("a definition");
            let plural = ours["spec"]["names"]["plural"].as_str().expect("a name");
            let file = Path::new(&peers).join(format!("snapshot.storage.k8s.io_{plural}.yaml"));
            let upstream = std::fs::read_to_string(&file).expect("upstream's definition");
            let mut upstream: Value = serde_saphyr::from_str(&upstream).expect("a definition");
            without_descriptions(&mut upstream, false);
            let approved = &upstream["metadata"]["annotations"]["api-approved.kubernetes.io"];
            assert_eq!(&ours["metadata"]["annotations"]["api-approved.kubernetes.io"], approved);
            assert_eq!(ours["metadata"]["name"], upstream["metadata"]["name"]);
            assert_eq!(ours["spec"], upstream["spec"], "{plural}");
        }
        assert_eq!(definitions().expect("three definitions").len(), 3);
    }
}
