//! Attacks that need another identity than the pod was given (S4).

use serde_json::{Value, json};

use crate::{Attack, nothing_worked, refused};

/// The identity that the restricted pod asked for, and nothing that would change it.
const IDENTITY: &str = r#"
print "BROKEN: uid $<\n" if $< != 1000;
print "BROKEN: gid $(\n" if (split / /, $()[0] != 3000;
print "BROKEN: groups $(\n" if join(" ", sort(split / /, $()) ne "3000 3000 4000" && join(" ", sort(split / /, $()) ne "3000 4000" && join(" ", sort(split / /, $()) ne "3000 4000 4000";
open(my $status, "<", "/proc/self/status") or die $!;
while (<$status>) {
    print "BROKEN: $_" if /^Cap(Eff|Prm|Bnd|Inh|Amb):/ && !/\t0+$/;
    print "BROKEN: $_" if /^NoNewPrivs:/ && !/1$/;
    print "BROKEN: $_" if /^Seccomp:/ && !/2$/;
}
print "BROKEN: wrote to /tmp of a read-only root\n" if open(my $f, ">", "/tmp/x");
print "done\n";
"#;

const ROOT_CAPABILITIES: &str = r#"
open(my $status, "<", "/proc/self/status") or die $!;
while (<$status>) {
    next unless /^Cap(Eff|Prm|Bnd):\s+([0-9a-f]+)/;
    my $set = hex $2;
    for my $bit (13, 16, 17, 19, 21, 22, 25, 27, 38, 39) {
        print "BROKEN: Cap$1 has bit $bit\n" if $set & (1 << $bit);
    }
}
print "done\n";
"#;

pub fn attacks() -> Vec<Attack> {
    let restricted = json!({
        "runAsUser": 1000, "runAsGroup": 3000, "runAsNonRoot": true, "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    });
    let mut as_user = pod(IDENTITY, restricted);
    as_user["securityContext"] = json!({"supplementalGroups": [4000]});
    let mut host_pid = pod("print qq(BROKEN: started\n)", json!({}));
    host_pid["hostPID"] = json!(true);
    let mut host_ipc = pod("print qq(BROKEN: started\n)", json!({}));
    host_ipc["hostIPC"] = json!(true);
    let attack = |name, pod, held| Attack { name, pod, claims: &[], held };
    vec![
        attack("S4: a pod that asks for user 1000 runs as another", as_user, nothing_worked),
        attack("S5: dangerous capabilities by default", pod(ROOT_CAPABILITIES, json!({})), nothing_worked),
        attack(
            "S4: runAsNonRoot as root",
            pod("print qq(BROKEN: started\n)", json!({"runAsNonRoot": true})),
            refused,
        ),
        attack("S4: hostPID", host_pid, refused),
        attack("S4: hostIPC", host_ipc, refused),
        attack(
            "S4: a seccomp profile that is not there",
            pod(
                "print qq(BROKEN: started\n)",
                json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"}}),
            ),
            refused,
        ),
    ]
}

pub fn pod(script: &str, security: Value) -> Value {
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "main", "image": "host", "command": ["/usr/bin/perl", "-e", script], "securityContext": security,
        }],
    })
}
