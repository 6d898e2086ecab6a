//! Where we mean to differ from upstream. An entry that no longer applies fails its theme.

use crate::compare::Deviation;

const GO_TYPES: &str = "upstream's words name its Go types";

pub const DEVIATIONS: &[Deviation] = &[
    Deviation {
        theme: "discovery",
        command: "kubectl version",
        upstream: &["Server Version: v1.36.3"],
        ours: &["Server Version: v1.36.0+bowline"],
        why: "we say which version we follow, and who we are",
    },
    Deviation {
        theme: "rules",
        command: r#"kubectl patch csinode node-a --type=merge -p '{"spec":{"drivers":[{"name":"csi.example.com","nodeID":"other"}]}}'"#,
        upstream: &[r#"spec.drivers: Invalid value: {"Name":"csi.example.com""#],
        ours: &[r#"spec.drivers: Invalid value: {"name":"csi.example.com""#],
        why: GO_TYPES,
    },
    Deviation {
        theme: "rules",
        command: r#"kubectl patch volumeattachment attachment --type=merge -p '{"spec":{"nodeName":"node-b"}}'"#,
        upstream: &[r#"spec: Invalid value: {"Attacher":"csi.example.com""#],
        ours: &[r#"spec: Invalid value: {"attacher":"csi.example.com""#],
        why: GO_TYPES,
    },
    Deviation {
        theme: "status",
        command: r#"kubectl patch pvc data --type=merge -p '{"status":{"phase":"Bound"}}'"#,
        upstream: &["persistentvolumeclaim/data patched"],
        ours: &["persistentvolumeclaim/data patched (no change)"],
        why: "upstream keeps a new claim without its phase, so the first update of it writes even if it changes nothing; ours does not",
    },
];
