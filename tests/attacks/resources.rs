//! Attacks on what the machine has only so much of (S4, S5).

use serde_json::{Value, json};

use crate::identity::pod;
use crate::{Attack, Outcome, nothing_worked, told};

const MEMORY: &str =
    r#"my $all = ""; $all .= "x" x (1 << 20) for 1 .. 300; print "BROKEN: has 300 MiB\n"; print "done\n";"#;

const PROCESSES: &str = r#"
my $count = 0;
for (1 .. 20000) {
    my $child = fork();
    last unless defined $child;
    if ($child == 0) { sleep 60; exit }
    push @children, $child; $count++;
}
kill 9, @children;
print "BROKEN: $count processes\n" if $count >= 20000;
print "done\n";
"#;

const SCRATCH: &str = r#"
for my $dir ("/tmp", "/run", "/dev/shm", "/dev") {
    open(my $f, ">", "$dir/fill") or next;
    my $block = "x" x (1 << 20); my $count = 0;
    while ($count < 1024 && (syswrite($f, $block) // 0) == length $block) { $count++ }
    print "BROKEN: $count MiB in $dir\n" if $count >= 1024;
    close $f; unlink "$dir/fill";
}
print "done\n";
"#;

pub fn attacks() -> Vec<Attack> {
    let limited = |script: &str, limits: Value| {
        let mut pod = pod(script, json!({}));
        pod["containers"][0]["resources"] = json!({"limits": limits});
        pod
    };
    let attack = |name, pod, held| Attack { name, pod, claims: &[], held };
    vec![
        attack(
            "S4: 300 MiB under a limit of 32 MiB",
            limited(MEMORY, json!({"memory": "32Mi"})),
            out_of_memory,
        ),
        attack("S5: a fork bomb", pod(PROCESSES, json!({})), nothing_worked),
        attack(
            "S5: the machine's memory through /tmp",
            limited(SCRATCH, json!({"memory": "256Mi"})),
            bounded,
        ),
    ]
}

fn out_of_memory(outcome: &Outcome) -> Result<(), String> {
    match outcome.ended.as_deref() {
        Some("OOMKilled") => told(outcome, "had reached its memory limit"),
        _ => Err(format!("not ended by its limit: {outcome:?}")),
    }
}

/// A full tmpfs, or the container's own memory limit, ends it.
fn bounded(outcome: &Outcome) -> Result<(), String> {
    out_of_memory(outcome).or_else(|_| nothing_worked(outcome))
}
