//! Attacks on files of the machine: keys, other pods' volumes, inherited descriptors, the program itself.

use serde_json::{Value, json};

use crate::identity::pod;
use crate::support::Cluster;
use crate::victim::Victim;
use crate::{Attack, nothing_worked};

const HOST_FILES: &str = r#"
for my $path ("/etc/shadow", "/etc/gshadow", glob("/root/*"), glob("/root/.*"), glob("/home/*"), glob("/etc/ssh/*"), glob("/etc/ssl/private/*")) {
    next if $path =~ m{/\.\.?$};
    print "BROKEN: read $path\n" if open(my $f, "<", $path) && sysread($f, my $byte, 1);
}
for my $path (SECRETS) {
    print "BROKEN: found $path\n" if glob("$path/*");
}
print "done\n";
"#;

const DESCRIPTORS: &str = r#"
for my $link (glob "/proc/*/fd/*") {
    my $target = readlink($link) or next;
    print "BROKEN: $link leads to $target\n" if -d $link && $target !~ m{/proc/} && -e "$link/etc/passwd" && $link =~ m{/proc/self/};
}
for my $number (3 .. 255) {
    print "BROKEN: descriptor $number is open\n" if readlink("/proc/self/fd/$number") && readlink("/proc/self/fd/$number") !~ m{/proc/} && -d "/proc/self/fd/$number";
}
print "done\n";
"#;

/// The program that started the container, written to through `/proc`.
const PROGRAM: &str = r#"
use Fcntl;
for my $path ("/proc/1/exe", "/proc/self/exe") {
    print "BROKEN: opened $path for writing\n" if sysopen(my $f, $path, O_WRONLY) || sysopen(my $g, $path, O_RDWR | O_APPEND);
    print "BROKEN: truncated $path\n" if truncate($path, 0);
    chmod 0777, $path and $path eq "/proc/1/exe" and print "BROKEN: changed the mode of $path\n";
}
print "done\n";
"#;

pub const PROC: &str = r#"
for my $path ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper") {
    print "BROKEN: opened $path for writing\n" if open(my $f, ">", $path);
}
for my $path ("/proc/kcore", "/proc/keys") {
    print "BROKEN: read $path\n" if open(my $f, "<", $path) && sysread($f, my $byte, 1);
}
print "BROKEN: more than this container's processes\n" if (() = glob "/proc/[0-9]*") > 8;
print "BROKEN: unshared a user namespace\n" if syscall(272, 0x10000000) == 0;
my ($source, $target, $type) = ("none", "/tmp", "tmpfs");
print "BROKEN: mounted\n" if syscall(165, $source, $target, $type, 0, 0) == 0;
print "done\n";
"#;

/// What a seccomp profile would refuse anyway must be refused without one, too.
pub const WITHOUT_PROFILE: &str = r#"
print "BROKEN: reads the keys of the machine's root\n" if syscall(250, 0, -4, 0) >= 0;
print "BROKEN: has a namespace of control groups\n" if syscall(272, 0x12000000) == 0;
print "BROKEN: opened /proc/sys for writing\n" if open(my $f, ">", "/proc/sys/kernel/core_pattern");
print "done\n";
"#;

pub fn attacks(cluster: &Cluster, victim: &Victim) -> Vec<Attack> {
    let attack = |name, pod| Attack { name, pod, claims: &[], held: nothing_worked };
    let volumes = cluster.kubelet_dir().join("pods").join(&victim.uid).join("volumes");
    let secrets = [cluster.data_dir(), cluster.kubelet_dir(), volumes]
        .map(|path| format!("{:?}", path.display().to_string()));
    vec![
        attack(
            "S5: files of the machine and of other pods",
            pod(&HOST_FILES.replace("SECRETS", &secrets.join(", ")), json!({})),
        ),
        attack("S3: inherited file descriptors", pod(DESCRIPTORS, json!({}))),
        attack("S9: the program behind /proc/1/exe", pod(PROGRAM, json!({}))),
        attack("S5: switches of the machine in /proc, and other namespaces", pod(PROC, json!({}))),
        attack(
            "S5: keys and control groups without a seccomp profile",
            pod(WITHOUT_PROFILE, json!({"seccompProfile": {"type": "Unconfined"}})),
        ),
        attack("a passwd that never ends, under a program started by a probe", blocked_passwd()),
    ]
}

/// `/etc/passwd` is a pipe that blocks each process that opens it. The pod must still end and go.
fn blocked_passwd() -> Value {
    let container = |name: &str, script: &str, mount: &str| {
        json!({
            "name": name, "image": "host", "command": ["/bin/sh", "-c", script],
            "volumeMounts": [{"name": "scratch", "mountPath": mount}],
        })
    };
    let mut main = container("main", "sleep 3; echo done", "/etc");
    main["readinessProbe"] = json!({"exec": {"command": ["/bin/true"]}, "periodSeconds": 1});
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "initContainers": [container("prepare", "mkfifo /scratch/passwd", "/scratch")],
        "containers": [main],
    })
}
