//! Attacks through paths inside a volume: links that lead out of it.

use serde_json::{Value, json};

use crate::{Attack, refused, told};

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
        Attack {
            name: "subPath: a directory that is a link from time to time, while containers start",
            pod: race(),
            claims: CLAIM,
            held: never_outside,
        },
    ]
}

/// So many containers start on the path while it changes.
const STARTS: usize = 12;

const PREPARE: &str = "mkdir /data/way && touch /data/way/inside && ln -s / /data/link";
/// Exchanges the directory and the link to the machine's root without a pause, until it is told to stop.
const SWAP: &str = r#"
my ($way, $link) = ("/data/way", "/data/link");
until (-e "/data/stop") {
    for (1 .. 1000) { syscall(316, -100, $way, -100, $link, 2) == 0 or die "cannot exchange them: $!" }
    $swaps += 1000;
}
print "swapped
" if $swaps;
"#;

/// Some starts find the directory, and some a link out of the volume, which is refused and told. None shows the machine.
fn race() -> Value {
    let look = "if [ -e /seen/etc ]; then echo BROKEN: the root of the machine; fi; [ -e /seen/inside ] && echo seen; true";
    let container = |name: &str, command: Value, mount: Value| json!({"name": name, "image": "host", "command": command, "volumeMounts": [mount]});
    let shell = |script: &str| json!(["/bin/sh", "-c", script]);
    let all = || json!({"name": "files", "mountPath": "/data"});
    let part = || json!({"name": "files", "mountPath": "/seen", "subPath": "way"});
    let lookers = (0..STARTS).map(|number| container(&format!("look-{number}"), shell(look), part()));
    // Containers start in this order.
    let mut containers = vec![container("swap", json!(["/usr/bin/perl", "-e", SWAP]), all())];
    containers.extend(lookers);
    containers.push(container("stop", shell("touch /data/stop; echo done"), all()));
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}],
        "initContainers": [container("prepare", shell(PREPARE), all())],
        "containers": containers,
    })
}

fn never_outside(outcome: &crate::Outcome) -> Result<(), String> {
    let log = &outcome.log;
    match log.lines().find(|line| line.contains("BROKEN")) {
        Some(line) => return Err(line.to_owned()),
        None if log.contains("done") && log.contains("swapped") => {}
        None => return Err(format!("the attack did not run to its end: {outcome:?}")),
    }
    let seen = log.lines().filter(|line| *line == "seen").count();
    println!("         {seen} of {STARTS} starts found the directory");
    if seen == STARTS { Ok(()) } else { told(outcome, "open sub-path `way`") }
}

/// Refused, failed to start, or shows an empty directory of the volume: anything but files of the machine.
fn not_outside(outcome: &crate::Outcome) -> Result<(), String> {
    if outcome.log.contains("BROKEN") {
        return Err(outcome.log.clone());
    }
    match outcome.ended.as_deref() {
        Some("StartError") => told(outcome, "open sub-path `way`"),
        _ if outcome.log.contains("done") => Ok(()),
        _ => refused(outcome),
    }
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
