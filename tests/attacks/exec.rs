//! Attacks by programs that are started in a running container with `kubectl exec`: they must be held by all that holds the
//! container's own program.

use serde_json::{Value, json};

use crate::devices::{LOOP_IOCTLS, OTHER_DEVICES};
use crate::files::{PROC, WITHOUT_PROFILE};
use crate::{Attack, nothing_worked};

/// Loop ioctls by the numbers of i386, from a program of 32 bits that is written here, byte by byte: it opens the device,
/// makes the ioctl, and ends with its errno, or with 200 if it could not open the device.
const I386_IOCTLS: &str = r#"
for my $request (0x4C00 .. 0x4C0B) {
    my ($base, $headers, $kernel) = (0x08048000, 0x54, "\xCD\x80");
    my $number = sub { pack("CV", 0xB8 + $_[0], $_[1]) };
    my $code = sub {
        $number->(0, 5) . $number->(3, $_[0]) . $number->(1, 2) . $kernel . "\x85\xC0\x79\x0C"
            . $number->(0, 1) . $number->(3, 200) . $kernel
            . "\x89\xC3" . $number->(0, 54) . $number->(1, $request) . $number->(2, 0) . $kernel
            . "\xF7\xD8\x89\xC3" . $number->(0, 1) . $kernel
    };
    my $size = $headers + length $code->(0);
    my $text = $code->($base + $size) . "/dev/mine\0";
    my $all = $headers + length $text;
    my $elf = "\x7FELF\1\1\1" . "\0" x 9 . pack("vvVVVVVvvvvvv", 2, 3, 1, $base + $headers, 0x34, 0, 0, 0x34, 0x20, 1, 0, 0, 0)
        . pack("V8", 1, 0, $base, $base, $all, $all, 5, 0x1000) . $text;
    open(my $f, ">", "/tmp/i386") or die $!; syswrite($f, $elf); close $f; chmod 0755, "/tmp/i386";
    my $errno = system("/tmp/i386") >> 8;
    print "BROKEN: loop ioctl ", sprintf("%x", $request), " of 32 bits: errno $errno\n" if $errno != 1;
}
print "done\n";
"#;

/// Attack, and the script that is run in its pod.
pub fn attacks() -> Vec<(Attack, &'static str)> {
    let unconfined = || json!({"seccompProfile": {"type": "Unconfined"}});
    let attack = |name, script, security: Value, claims| {
        (Attack { name, pod: waiting(security), claims, held: nothing_worked }, script)
    };
    const RAW: &[(&str, bool)] = &[("raw", true)];
    vec![
        attack("exec: loop ioctls on the own block device", LOOP_IOCTLS, json!({}), RAW),
        attack("exec: loop ioctls without a seccomp profile", LOOP_IOCTLS, unconfined(), RAW),
        attack("exec: loop ioctls of a 32-bit program", I386_IOCTLS, unconfined(), RAW),
        attack("exec: device nodes of others", OTHER_DEVICES, unconfined(), RAW),
        attack("exec: mounts, namespaces and switches of the machine", PROC, json!({}), RAW),
        attack("exec: keys and control groups without a seccomp profile", WITHOUT_PROFILE, unconfined(), RAW),
    ]
}

fn waiting(security: Value) -> Value {
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}}],
        "containers": [{
            "name": "main", "image": "host", "command": ["/bin/sleep", "3600"], "securityContext": security,
            "volumeDevices": [{"name": "raw", "devicePath": "/dev/mine"}],
        }],
    })
}
