//! Where we mean to differ from upstream. An entry that no longer applies fails its theme.

use crate::compare::Deviation;

pub const DEVIATIONS: &[Deviation] = &[
    Deviation {
        theme: "discovery",
        command: "kubectl version",
        upstream: &["Server Version: v1.36.3"],
        ours: &["Server Version: v1.36.0+bowline"],
        why: "we say which version we follow, and who we are",
    },
    Deviation {
        theme: "discovery",
        command: "kubectl api-versions",
        upstream: &[
            "admissionregistration.k8s.io/v1",
            "apiregistration.k8s.io/v1",
            "autoscaling/v1",
            "certificates.k8s.io/v1",
            "flowcontrol.apiserver.k8s.io/v1",
            "networking.k8s.io/v1",
        ],
        ours: &[],
        why: "groups that nothing on a volume's journey asks for are not served",
    },
    Deviation {
        theme: "discovery",
        command: "kubectl api-resources --api-group=''",
        upstream: &["componentstatuses        cs           v1           false        ComponentStatus"],
        ours: &[],
        why: "deprecated since v1.19, and about processes that do not exist apart here",
    },
    Deviation {
        theme: "status",
        command: r#"kubectl patch pvc data --type=merge -p '{"status":{"phase":"Bound"}}'"#,
        upstream: &["persistentvolumeclaim/data patched"],
        ours: &["persistentvolumeclaim/data patched (no change)"],
        why: "upstream keeps a new claim without its phase, so the first update of it writes even if it changes nothing; ours does not",
    },
    Deviation {
        theme: "rules",
        command: r#"kubectl patch pod writer --type=merge -p '{"spec":{"volumes":[]}}'"#,
        upstream: &[r#""Volumes": [],"#],
        ours: &[r#""Volumes": null,"#],
        why: "what is compared is what would be stored, in which an empty list and none are one",
    },
];
