//! The system calls that the default profile refuses, with their numbers in each ABI.

use nix::libc::{self, EPERM};

use super::assembler::{Rule, Verdict, When};

/// The call does not exist in an ABI.
const NONE: i32 = -1;

#[derive(Clone, Copy)]
pub enum Abi {
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "not of this architecture"))]
    X86_64,
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "not of this architecture"))]
    I386,
    #[cfg_attr(not(target_arch = "aarch64"), expect(dead_code, reason = "not of this architecture"))]
    Aarch64,
}

impl Abi {
    fn pick(self, [x86_64, i386, aarch64]: [i32; 3]) -> Option<u32> {
        let number = match self {
            Self::X86_64 => x86_64,
            Self::I386 => i386,
            Self::Aarch64 => aarch64,
        };
        u32::try_from(number).ok()
    }
}

const IOCTL: [i32; 3] = [16, 54, 29];
const CLONE: [i32; 3] = [56, 120, 220];
const CLONE3: [i32; 3] = [435; 3];
const UNSHARE: [i32; 3] = [272, 310, 97];
const PERSONALITY: [i32; 3] = [135, 136, 92];
const SOCKET: [i32; 3] = [41, 359, 198];
const SOCKETCALL: [i32; 3] = [NONE, 102, NONE];
const ADD_KEY: [i32; 3] = [248, 286, 217];
const REQUEST_KEY: [i32; 3] = [249, 287, 218];
const KEYCTL: [i32; 3] = [250, 288, 219];

/// Loop devices: `LOOP_SET_FD` and all others of that driver, and those of `/dev/loop-control`.
const LOOP_FIRST: u32 = 0x4C00;
const LOOP_LAST: u32 = 0x4CFF;
/// Settings of a block device that stay when a loop device goes on to the next volume: `BLKROSET` leaves it read-only,
/// `BLKRRPART` and `BLKPG` leave partitions.
const BLKROSET: u32 = 0x125D;
const BLKRRPART: u32 = 0x125F;
const BLKPG: u32 = 0x1269;

/// Namespaces of their own, except for time, whose flag means something else in clone(2).
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .unsigned_abs();
const NEW_TIME_NAMESPACE: u32 = 0x80;

/// Linux, with `UNAME26` or as a 32-bit machine, and the question which one it is.
const PERSONALITIES: [u32; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];
/// Families with much kernel code behind them that no workload here needs: crypto (AF_ALG) and hypervisors (AF_VSOCK).
const SOCKET_FAMILIES: [u32; 2] = [38, 40];
/// socketcall(2) number 1 is socket(2), with its arguments in memory, where no filter sees them.
const SOCKETCALL_SOCKET: u32 = 1;

const NEVER: &[&str] = &[];
const ADMIN: &[&str] = &["SYS_ADMIN"];
const TIME: &[&str] = &["SYS_TIME"];
const MODULE: &[&str] = &["SYS_MODULE"];
const BOOT: &[&str] = &["SYS_BOOT"];
const RAWIO: &[&str] = &["SYS_RAWIO"];
const PTRACE: &[&str] = &["SYS_PTRACE"];

/// Calls that are refused whatever their arguments: name, number in each ABI, and the capabilities of which one lifts
/// the rule, as it does in other runtimes.
#[rustfmt::skip]
const REFUSED: &[(&str, [i32; 3], &[&str])] = &[
    // Mounts and namespaces.
    ("mount", [165, 21, 40], ADMIN),
    ("umount", [NONE, 22, NONE], ADMIN),
    ("umount2", [166, 52, 39], ADMIN),
    ("pivot_root", [155, 217, 41], ADMIN),
    ("open_tree", [428; 3], ADMIN),
    ("move_mount", [429; 3], ADMIN),
    ("fsopen", [430; 3], ADMIN),
    ("fsconfig", [431; 3], ADMIN),
    ("fsmount", [432; 3], ADMIN),
    ("fspick", [433; 3], ADMIN),
    ("mount_setattr", [442; 3], ADMIN),
    ("open_tree_attr", [467; 3], ADMIN),
    ("setns", [308, 346, 268], ADMIN),
    ("quotactl", [179, 131, 60], ADMIN),
    ("quotactl_fd", [443; 3], ADMIN),
    ("swapon", [167, 87, 224], ADMIN),
    ("swapoff", [168, 115, 225], ADMIN),
    ("lookup_dcookie", [212, 253, 18], ADMIN),
    ("fanotify_init", [300, 338, 262], ADMIN),
    // Handles of files lead out of any directory.
    ("open_by_handle_at", [304, 342, 265], &["DAC_READ_SEARCH"]),
    // Keys are not divided by any namespace that a container has.
    ("add_key", ADD_KEY, NEVER),
    ("request_key", REQUEST_KEY, NEVER),
    ("keyctl", KEYCTL, NEVER),
    // Large parts of the kernel that break often.
    ("bpf", [321, 357, 280], &["SYS_ADMIN", "BPF"]),
    ("perf_event_open", [298, 336, 241], &["SYS_ADMIN", "PERFMON"]),
    ("userfaultfd", [323, 374, 282], PTRACE),
    ("io_uring_setup", [425; 3], NEVER),
    ("io_uring_enter", [426; 3], NEVER),
    ("io_uring_register", [427; 3], NEVER),
    ("modify_ldt", [154, 123, NONE], NEVER),
    ("vm86", [NONE, 166, NONE], NEVER),
    ("vm86old", [NONE, 113, NONE], NEVER),
    // Other processes' memory past ptrace(2), which stays allowed: it reaches processes of the same container only.
    ("process_vm_readv", [310, 347, 270], PTRACE),
    ("process_vm_writev", [311, 348, 271], PTRACE),
    ("kcmp", [312, 349, 272], PTRACE),
    // The machine itself.
    ("kexec_load", [246, 283, 104], BOOT),
    ("kexec_file_load", [320, NONE, 294], BOOT),
    ("reboot", [169, 88, 142], BOOT),
    ("create_module", [174, 127, NONE], MODULE),
    ("init_module", [175, 128, 105], MODULE),
    ("finit_module", [313, 350, 273], MODULE),
    ("delete_module", [176, 129, 106], MODULE),
    ("get_kernel_syms", [177, 130, NONE], NEVER),
    ("query_module", [178, 167, NONE], NEVER),
    ("iopl", [172, 110, NONE], RAWIO),
    ("ioperm", [173, 101, NONE], RAWIO),
    ("settimeofday", [164, 79, 170], TIME),
    ("stime", [NONE, 25, NONE], TIME),
    ("clock_settime", [227, 264, 112], TIME),
    ("clock_settime64", [NONE, 404, NONE], TIME),
    ("acct", [163, 51, 89], &["SYS_PACCT"]),
    ("syslog", [103, 103, 116], &["SYSLOG"]),
    ("vhangup", [153, 111, 58], &["SYS_TTY_CONFIG"]),
    // Left from earlier kernels.
    ("_sysctl", [156, 149, NONE], NEVER),
    ("sysfs", [139, 135, NONE], NEVER),
    ("ustat", [136, 62, NONE], NEVER),
    ("uselib", [134, 86, NONE], NEVER),
    ("nfsservctl", [180, 169, 42], NEVER),
    ("bdflush", [NONE, 134, NONE], NEVER),
];

/// What no container may do, whatever its spec says.
pub fn loop_rules(abi: Abi) -> Vec<Rule> {
    const REQUEST: u32 = 1;
    let ioctl = |when| rule(abi, IOCTL, when, EPERM);
    let kept = When::OneOf(REQUEST, vec![BLKROSET, BLKRRPART, BLKPG]);
    [ioctl(When::Between(REQUEST, LOOP_FIRST, LOOP_LAST)), ioctl(kept)].into_iter().flatten().collect()
}

/// What only a container may do that could do the same by mounting: use what of the machine no namespace divides for it.
pub fn shared_rules(abi: Abi, has: &dyn Fn(&str) -> bool) -> Vec<Rule> {
    if has("SYS_ADMIN") {
        return Vec::new();
    }
    let flag = || When::AnyBit(0, libc::CLONE_NEWCGROUP.unsigned_abs());
    let mut rules = vec![
        rule(abi, CLONE, flag(), EPERM),
        rule(abi, UNSHARE, flag(), EPERM),
        // Its flags are in memory, where no filter sees them. C libraries then use clone(2).
        rule(abi, CLONE3, When::Always, libc::ENOSYS),
    ];
    rules.extend([ADD_KEY, REQUEST_KEY, KEYCTL].map(|numbers| rule(abi, numbers, When::Always, EPERM)));
    rules.into_iter().flatten().collect()
}

/// What the default profile refuses a container with these capabilities.
pub fn default_rules(abi: Abi, has: &dyn Fn(&str) -> bool) -> Vec<Rule> {
    let mut rules: Vec<Option<Rule>> = Vec::new();
    if !has("SYS_ADMIN") {
        rules.push(rule(abi, CLONE, When::AnyBit(0, NEW_NAMESPACES), EPERM));
        rules.push(rule(abi, UNSHARE, When::AnyBit(0, NEW_NAMESPACES | NEW_TIME_NAMESPACE), EPERM));
        // Its flags are in memory, where no filter sees them. C libraries then use clone(2).
        rules.push(rule(abi, CLONE3, When::Always, libc::ENOSYS));
    }
    rules.push(rule(abi, PERSONALITY, When::NoneOf(0, PERSONALITIES.into()), EPERM));
    rules.push(rule(abi, SOCKET, When::OneOf(0, SOCKET_FAMILIES.into()), EPERM));
    rules.push(rule(abi, SOCKETCALL, When::OneOf(0, vec![SOCKETCALL_SOCKET]), EPERM));
    for (_, numbers, lifted_by) in REFUSED {
        if !lifted_by.iter().any(|name| has(name)) {
            rules.push(rule(abi, *numbers, When::Always, EPERM));
        }
    }
    rules.into_iter().flatten().collect()
}

fn rule(abi: Abi, numbers: [i32; 3], when: When, errno: i32) -> Option<Rule> {
    abi.pick(numbers).map(|number| Rule { number, when, verdict: Verdict::Fail(errno) })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// From here on the kernel gives a call the same number in every ABI.
    const UNIFIED: i32 = 424;

    pub fn refused(name: &str) -> [i32; 3] {
        REFUSED.iter().find(|(known, ..)| *known == name).unwrap().1
    }

    /// A number that stands twice is a number that was mistyped.
    #[test]
    fn every_number_stands_once() {
        for abi in 0..3 {
            let mut seen = BTreeSet::new();
            for (name, numbers, _) in REFUSED {
                assert!(numbers[abi] == NONE || seen.insert(numbers[abi]), "{name} in ABI {abi}");
                let unified = numbers.iter().any(|number| *number >= UNIFIED);
                assert!(!unified || numbers.iter().all(|number| *number == numbers[0]), "{name}");
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn numbers_are_those_of_the_c_library() {
        let known = [
            ("mount", libc::SYS_mount),
            ("umount2", libc::SYS_umount2),
            ("pivot_root", libc::SYS_pivot_root),
            ("setns", libc::SYS_setns),
            ("keyctl", libc::SYS_keyctl),
            ("bpf", libc::SYS_bpf),
            ("open_by_handle_at", libc::SYS_open_by_handle_at),
            ("finit_module", libc::SYS_finit_module),
            ("io_uring_setup", libc::SYS_io_uring_setup),
            ("mount_setattr", libc::SYS_mount_setattr),
        ];
        for (name, number) in known {
            assert_eq!(i64::from(refused(name)[0]), number, "{name}");
        }
        let others = [(IOCTL, libc::SYS_ioctl), (CLONE, libc::SYS_clone), (UNSHARE, libc::SYS_unshare)];
        assert!(others.iter().all(|(numbers, number)| i64::from(numbers[0]) == *number));
    }
}
