//! Which system calls a container's processes may make.
//!
//! # Loop devices
//!
//! A pod with a raw block volume holds the real `/dev/loopN`. A pod that can call `LOOP_CLR_FD` on it frees the number,
//! and then reads and writes the volume that gets it next. So every process of a container is refused the ioctls of the loop
//! driver and of `/dev/loop-control`, and the few of block devices whose effect stays when the number goes on:
//! whatever its profile, capabilities or ABI, and whether it is the program, was started beside it with `exec`, or is
//! process 1, which a program with SYS_PTRACE could otherwise make the call from.
//!
//! There is no way around ioctl(2): the driver's files in sysfs are read-only, io_uring cannot make ioctls (its commands
//! for block devices only discard), and a descriptor that is passed over a socket to another pod meets the same filter
//! there. A process of the machine itself that takes descriptors from any other and calls loop ioctls on them would be
//! one; none is known. The device allow-list (`cgroups`) keeps a container from opening any other loop device, and
//! `/dev/loop-control`.
//!
//! # Control groups and keys
//!
//! A program without a profile may make a user namespace, in which it may mount. With a namespace of control groups from
//! there it could mount its own groups, whose files belong to root: a container that runs as root would lift its own
//! limits, and freeze others in hierarchies where it has no group of its own. So a container without SYS_ADMIN makes no
//! namespaces of control groups, whatever its profile. Nor does it use keys: the kernel divides them by users, so that
//! root in a container would read those of the host's root.
//!
//! # The default profile
//!
//! It refuses what is listed in `calls` and what the kernel has added since that list was made ([`FIRST_UNKNOWN`]). Over
//! a closed range of numbers, a list of what is refused says exactly as much as a list of what is allowed, but is a
//! fifth as long in three ABIs. A refused call fails with EPERM; one that is unknown, with ENOSYS, as on an older kernel.
//! Calls that need a capability are allowed to a container that has it.
//!
//! # What is logged
//!
//! The kernel writes a line to its audit log for each call that is refused with EPERM: no program needs those, so one that
//! makes them is worth a look. What only seems to be missing is not logged: C libraries try clone3(2) for every thread.
//! Hence two filters. Of several that refuse a call the kernel heeds the one that was installed last.
//!
//! # ABIs
//!
//! Numbers differ between ABIs, and a process may use all that its processor has. On x86-64 those of i386 (`int 0x80`)
//! have rules of their own, and none of x32 exist. On aarch64 only 64-bit calls are known. A process that uses another
//! ABI is killed.

mod assembler;
mod calls;

use std::io;

use nix::libc::{self, sock_filter};

use self::assembler::{Section, Verdict, assemble};
use self::calls::{Abi, default_rules, loop_rules, shared_rules};
use super::raw;
use crate::containers::{Seccomp, Security};

/// The first number that the newest kernel when this was written (6.18) does not know.
const FIRST_UNKNOWN: u32 = 470;

/// What becomes of a call that the program shall believe not to exist.
const MISSING: Verdict = Verdict::Fail(libc::ENOSYS);

/// Where the numbers of x32 begin. Those of x86-64 end before it.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// ABI, its name for audit(7), and the first number that is none of its calls.
#[cfg(target_arch = "x86_64")]
const ABIS: [(Abi, u32, u32); 2] = [(Abi::X86_64, 0xC000_003E, X32), (Abi::I386, 0x4000_0003, u32::MAX)];
#[cfg(target_arch = "aarch64")]
const ABIS: [(Abi, u32, u32); 1] = [(Abi::Aarch64, 0xC000_00B7, u32::MAX)];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the numbers of system calls are known for x86-64 and aarch64 only");

/// From now on this thread, and what it starts, makes only calls that a container with this security may make. Needs
/// SYS_ADMIN.
pub(super) fn confine(security: &Security) -> io::Result<()> {
    let [missing, refused] = filters(security);
    raw::install_filter(&missing, false)?;
    raw::install_filter(&refused, true)
}

/// For calls that seem not to exist, and for those that are refused.
fn filters(security: &Security) -> [Vec<sock_filter>; 2] {
    let has = |name: &str| security.capabilities.contains(name);
    let confined = security.seccomp == Seccomp::RuntimeDefault;
    let rules = |abi| {
        // The first ones hold whatever the profile is.
        let fixed = [loop_rules(abi), shared_rules(abi, &has)].concat();
        let profile = if confined { default_rules(abi, &has) } else { Vec::new() };
        fixed.into_iter().chain(profile)
    };
    let missing = |(abi, architecture, end): (Abi, u32, u32)| Section {
        architecture,
        first_unknown: if confined { FIRST_UNKNOWN } else { end },
        rules: rules(abi).filter(|rule| rule.verdict == MISSING).collect(),
    };
    let refused = |(abi, architecture, end): (Abi, u32, u32)| Section {
        architecture,
        first_unknown: end,
        rules: rules(abi).filter(|rule| rule.verdict != MISSING).collect(),
    };
    [assemble(&ABIS.map(missing)), assemble(&ABIS.map(refused))]
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use nix::libc::{ENOSYS, EPERM};

    use super::assembler::Verdict::{Allow, Fail, Kill};
    use super::assembler::tests::run;
    use super::calls::tests::refused;
    use super::*;

    const X86_64: u32 = 0xC000_003E;
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;

    /// As the kernel does it: the stricter verdict counts, and of equals that of the last filter.
    fn verdict(security: &Security, architecture: u32, number: u32, arguments: [u32; 6]) -> Verdict {
        let [missing, refused] =
            filters(security).map(|filter| run(&filter, architecture, number, arguments));
        assert!(refused != Fail(ENOSYS) || number >= X32, "{number} would be logged");
        match (missing, refused) {
            (Kill, _) | (_, Kill) => Kill,
            (missing, Allow) => missing,
            (_, refused) => refused,
        }
    }

    fn unconfined() -> Security {
        Security { seccomp: Seccomp::Unconfined, ..Security::default() }
    }

    fn ioctl(architecture: u32, request: u32) -> Verdict {
        let number = if architecture == X86_64 { 16 } else { 54 };
        verdict(&unconfined(), architecture, number, [5, request, 0, 0, 0, 0])
    }

    #[test]
    fn loop_ioctls_are_refused_in_every_abi() {
        for architecture in [X86_64, I386] {
            for request in [0x4C00, 0x4C01, 0x4C05, 0x4C0A, 0x4C80, 0x4C82, 0x4CFF, 0x125D, 0x1269] {
                assert_eq!(ioctl(architecture, request), Fail(EPERM), "{architecture:x} {request:x}");
            }
            // TCGETS, BLKGETSIZE64, BLKDISCARD, and what only looks like a loop ioctl.
            for request in [0x5401, 0x8008_1272, 0x1277, 0x4BFF, 0x4D00, 0x8000_4C01] {
                assert_eq!(ioctl(architecture, request), Allow, "{architecture:x} {request:x}");
            }
        }
        assert_eq!(verdict(&unconfined(), X86_64, X32 + 514, [5, 0x4C01, 0, 0, 0, 0]), Fail(ENOSYS));
        assert_eq!(verdict(&unconfined(), ARM, 54, [0; 6]), Kill);
        assert_eq!(verdict(&unconfined(), X86_64, 165, [0; 6]), Allow, "mount(2) needs a capability anyway");
    }

    #[test]
    fn control_groups_and_keys_are_out_of_reach_without_a_profile() {
        let unshare = libc::CLONE_NEWUSER.unsigned_abs();
        let with_groups = unshare | libc::CLONE_NEWCGROUP.unsigned_abs();
        let mut security = unconfined();
        for (refused, missing) in [(Fail(EPERM), Fail(ENOSYS)), (Allow, Allow)] {
            let asked = security.clone();
            let call = |abi, number, flags| verdict(&asked, abi, number, [flags, 0, 0, 0, 0, 0]);
            for (abi, number) in [(X86_64, 272), (X86_64, 56), (I386, 310), (I386, 120)] {
                assert_eq!(call(abi, number, unshare), Allow, "{abi:x} {number}");
                assert_eq!(call(abi, number, with_groups), refused, "{abi:x} {number}");
            }
            assert_eq!((call(X86_64, 435, 0), call(I386, 435, 0)), (missing, missing), "clone3");
            for (abi, number) in [(X86_64, 248), (X86_64, 250), (I386, 286), (I386, 288)] {
                assert_eq!(call(abi, number, 0), refused, "keys: {abi:x} {number}");
            }
            security.capabilities.insert("SYS_ADMIN".into());
        }
    }

    #[test]
    fn the_default_profile() {
        let security = Security::default();
        let call = |number: i64, first: u32| {
            verdict(&security, X86_64, u32::try_from(number).unwrap(), [first, 0, 0, 0, 0, 0])
        };
        let fork = libc::SIGCHLD.unsigned_abs();
        let thread = 0x003D_0F00;
        let table = [
            (libc::SYS_mount, 0, Fail(EPERM)),
            (libc::SYS_keyctl, 0, Fail(EPERM)),
            (libc::SYS_io_uring_setup, 0, Fail(EPERM)),
            (libc::SYS_clone, fork, Allow),
            (libc::SYS_clone, thread, Allow),
            (libc::SYS_clone, fork | libc::CLONE_NEWUSER.unsigned_abs(), Fail(EPERM)),
            (libc::SYS_clone3, 0, Fail(ENOSYS)),
            (libc::SYS_unshare, libc::CLONE_FS.unsigned_abs(), Allow),
            (libc::SYS_unshare, 0x80, Fail(EPERM)),
            (libc::SYS_unshare, libc::CLONE_NEWNS.unsigned_abs(), Fail(EPERM)),
            (libc::SYS_personality, 0xFFFF_FFFF, Allow),
            (libc::SYS_personality, 0x4_0000, Fail(EPERM)),
            (libc::SYS_socket, 1, Allow),
            (libc::SYS_socket, 38, Fail(EPERM)),
            (libc::SYS_ptrace, 0, Allow),
            (libc::SYS_read, 0, Allow),
            (i64::from(FIRST_UNKNOWN), 0, Fail(ENOSYS)),
        ];
        for (number, first, want) in table {
            assert_eq!(call(number, first), want, "call {number} with {first:x}");
        }
        let i386 = |number: u32, first: u32| verdict(&security, I386, number, [first, 0, 0, 0, 0, 0]);
        for name in ["mount", "umount", "bpf", "vm86", "stime"] {
            assert_eq!(i386(refused(name)[1].unsigned_abs(), 0), Fail(EPERM), "{name}");
        }
        // mount(2) of x86-64 is another call in i386, and the other way round.
        assert_eq!((i386(165, 0), call(21, 0)), (Allow, Allow));
        assert_eq!((i386(102, 1), i386(102, 2)), (Fail(EPERM), Allow), "socketcall");
        assert_eq!(verdict(&security, X86_64, X32 + 1, [0; 6]), Fail(ENOSYS));
        assert_eq!(verdict(&security, ARM, 0, [0; 6]), Kill);
    }

    #[test]
    fn a_capability_lifts_what_it_is_for() {
        let mut security = Security::default();
        security.capabilities.insert("SYS_ADMIN".into());
        let call = |number: i64| {
            verdict(&security, X86_64, u32::try_from(number).unwrap(), [0x0002_0000, 0, 0, 0, 0, 0])
        };
        for allowed in [libc::SYS_mount, libc::SYS_unshare, libc::SYS_clone, libc::SYS_clone3] {
            assert_eq!(call(allowed), Allow, "{allowed}");
        }
        for refused in [libc::SYS_keyctl, libc::SYS_init_module, libc::SYS_reboot] {
            assert_eq!(call(refused), Fail(EPERM), "{refused}");
        }
    }
}
