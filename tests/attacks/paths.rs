//! Attacks through paths inside a volume: links that lead out of it.

use serde_json::{Value, json};

use crate::{Attack, refused};

const CLAIM: &[(&str, bool)] = &[("files", false)];

pub fn attacks() -> Vec<Attack> {
    // An init container of the same pod prepares the volume; the kubelet must not follow what it made.
    let attack =
        |name, prepare: &str| Attack { name, pod: escape(prepare), claims: CLAIM, held: not_outside };
    vec![
        attack("subPath: a link to the machine's root", "ln -s / /data/way"),
        attack("subPath: a link up and out of the volume", "ln -s ../../../../../../../.. /data/way"),
        attack(
            "subPath: a link behind a directory",
            "mkdir /data/real && ln -s /etc /data/real/x && ln -s real/x /data/way",
        ),
    ]
}

/// Refused, failed to start, or shows an empty directory of the volume: anything but files of the machine.
fn not_outside(outcome: &crate::Outcome) -> Result<(), String> {
    if outcome.log.contains("BROKEN") {
        return Err(outcome.log.clone());
    }
    let failed_to_start = outcome.ended.as_deref() == Some("StartError");
    if failed_to_start || outcome.log.contains("done") { Ok(()) } else { refused(outcome) }
}

fn escape(prepare: &str) -> Value {
    let look = "for f in shadow passwd etc/passwd; do test -e /seen/$f && echo BROKEN: $f; done; echo done";
    let container = |name: &str, script: &str, mount: Value| json!({"name": name, "image": "host", "command": ["/bin/sh", "-c", script], "volumeMounts": [mount]});
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}],
        "initContainers": [container("prepare", prepare, json!({"name": "files", "mountPath": "/data"}))],
        "containers": [container("main", look, json!({"name": "files", "mountPath": "/seen", "subPath": "way"}))],
    })
}
