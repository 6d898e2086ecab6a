//! Attacks on devices: the attacker's own loop device, and those of others.

use serde_json::{Value, json};

use crate::{Attack, nothing_worked, refused};

const CLAIM: &[(&str, bool)] = &[("raw", true)];

/// Every loop ioctl, also with high bits set, which the kernel cuts off.
pub const LOOP_IOCTLS: &str = r#"
use Fcntl; sysopen(my $f, "/dev/mine", O_RDWR) or die "open the own device: $!";
for my $request (0x4C00 .. 0x4C0B) {
    my $buffer = "\0" x 512;
    print "BROKEN: loop ioctl ", sprintf("%x", $request), "\n" if defined ioctl($f, $request, $buffer);
    my $wide = $request | 0xFFFFFFFF00000000;
    print "BROKEN: wide loop ioctl ", sprintf("%x", $wide), "\n" if syscall(16, fileno($f), $wide, 0) == 0;
}
print "done\n";
"#;

const NODE_MODE: &str = r#"
print "BROKEN: changed the mode\n" if chmod 0666, "/dev/mine";
print "BROKEN: changed the owner\n" if chown 1000, 1000, "/dev/mine";
print "done\n";
"#;

/// The devices of others, by node and by number.
pub const OTHER_DEVICES: &str = r#"
for my $number (0 .. 63) {
    for my $path ("/dev/loop$number", "/tmp/loop$number", "/dev/shm/loop$number", "/data/loop$number") {
        syscall(133, my $copy = $path, 0060666, 7 * 256 + $number);
        print "BROKEN: opened $path\n" if open(my $f, "<", $path) && sysread($f, my $byte, 1);
    }
}
for my $path ("/dev/loop-control", "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/fuse", "/dev/kvm") {
    print "BROKEN: opened $path\n" if open(my $f, "<", $path);
}
print "done\n";
"#;

pub fn attacks() -> Vec<Attack> {
    vec![
        Attack {
            name: "S1: loop ioctls on the own block device",
            pod: with_device(LOOP_IOCTLS, json!({})),
            claims: CLAIM,
            held: nothing_worked,
        },
        Attack {
            name: "S1: loop ioctls without a seccomp profile",
            pod: with_device(LOOP_IOCTLS, json!({"seccompProfile": {"type": "Unconfined"}})),
            claims: CLAIM,
            held: nothing_worked,
        },
        Attack {
            name: "S1: loop ioctls from a program started by a probe",
            pod: by_probe(LOOP_IOCTLS),
            claims: CLAIM,
            held: nothing_worked,
        },
        Attack {
            name: "S1: mode and owner of the own device node, which is the machine's",
            pod: with_device(NODE_MODE, json!({"seccompProfile": {"type": "Unconfined"}})),
            claims: CLAIM,
            held: nothing_worked,
        },
        Attack {
            name: "S1: device nodes of others",
            pod: with_files(OTHER_DEVICES, json!({})),
            claims: &[("files", false)],
            held: nothing_worked,
        },
        Attack {
            name: "S1: device nodes of others without a seccomp profile",
            pod: with_files(OTHER_DEVICES, json!({"seccompProfile": {"type": "Unconfined"}})),
            claims: &[("files", false)],
            held: nothing_worked,
        },
        Attack {
            name: "S1: volumes are mounted nodev,nosuid",
            pod: with_files(MOUNT_FLAGS, json!({})),
            claims: &[("files", false)],
            held: nothing_worked,
        },
        capability("MKNOD"),
        capability("SYS_ADMIN"),
        capability("SYS_RAWIO"),
        capability("SYS_MODULE"),
        capability("BPF"),
    ]
}

const MOUNT_FLAGS: &str = r#"
open(my $table, "<", "/proc/self/mountinfo") or die $!;
while (<$table>) {
    my @field = split / /;
    next unless $field[4] =~ m{^/(data|scratch|var/run/secrets|run/secrets)};
    $seen++;
    print "BROKEN: $field[4] is mounted $field[5]\n" unless $field[5] =~ /nodev/ && $field[5] =~ /nosuid/;
}
print "done\n" if $seen >= 3;
"#;

fn capability(name: &'static str) -> Attack {
    Attack {
        name: match name {
            "MKNOD" => "S1: a pod that asks for CAP_MKNOD",
            "SYS_ADMIN" => "S1: a pod that asks for CAP_SYS_ADMIN",
            "SYS_RAWIO" => "S1: a pod that asks for CAP_SYS_RAWIO",
            "SYS_MODULE" => "S1: a pod that asks for CAP_SYS_MODULE",
            _ => "S1: a pod that asks for CAP_BPF",
        },
        pod: super::identity::pod("print qq(BROKEN: started\n)", json!({"capabilities": {"add": [name]}})),
        claims: &[],
        held: refused,
    }
}

fn with_device(script: &str, security: Value) -> Value {
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}}],
        "containers": [{
            "name": "main", "image": "host", "command": ["/usr/bin/perl", "-e", script], "securityContext": security,
            "volumeDevices": [{"name": "raw", "devicePath": "/dev/mine"}],
        }],
    })
}

fn with_files(script: &str, security: Value) -> Value {
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}, {"name": "scratch", "emptyDir": {}}],
        "containers": [{
            "name": "main", "image": "host", "command": ["/usr/bin/perl", "-e", script], "securityContext": security,
            "volumeMounts": [{"name": "files", "mountPath": "/data"}, {"name": "scratch", "mountPath": "/scratch"}],
        }],
    })
}

/// The probe's program writes to the container's first output; the container ends when it has said all.
fn by_probe(script: &str) -> Value {
    let mut pod = with_device("1", json!({}));
    let wait = "until grep -q done /tmp/out 2>/dev/null; do sleep 0.05; done; cat /tmp/out";
    let probe = r#"perl -e "$SCRIPT" > /tmp/new 2>&1; mv /tmp/new /tmp/out"#;
    let container = &mut pod["containers"][0];
    container["command"] = json!(["/bin/sh", "-c", wait]);
    container["env"] = json!([{"name": "SCRIPT", "value": script.replace("$(", "$ (")}]);
    container["readinessProbe"] = json!({"exec": {"command": ["/bin/sh", "-c", probe]}, "periodSeconds": 1});
    pod
}
