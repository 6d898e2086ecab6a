//! The table of checks: since which version each exists, and which one takes the place of which.

use super::policy::{Level, LevelVersion, Version};
use super::subject::Subject;
use super::violation::Violation;
use super::{baseline, profiles, restricted};

/// The last version that changed a check; later ones mean the same.
const NEWEST: u64 = 35;

/// A check as of a version v1.x.
type Judge = fn(&Subject<'_>, u64) -> Option<Violation>;

struct Check {
    since: u64,
    judge: Judge,
    /// At the level `restricted` another check takes its place from this version on.
    superseded: u64,
}

const NEVER: u64 = u64::MAX;

const fn since(since: u64, judge: Judge) -> Check {
    Check { since, judge, superseded: NEVER }
}

/// In the order of upstream's names for them.
const BASELINE: [Check; 12] = [
    since(0, profiles::apparmor),
    Check { superseded: 22, ..since(0, baseline::capabilities) },
    since(0, baseline::host_namespaces),
    Check { superseded: 0, ..since(0, baseline::host_path_volumes) },
    since(0, baseline::host_ports),
    since(34, baseline::host_probes),
    since(0, baseline::privileged),
    Check { superseded: 35, ..since(0, baseline::proc_mount) },
    since(0, profiles::selinux),
    Check { superseded: 19, ..since(0, profiles::seccomp) },
    since(0, baseline::sysctls),
    since(0, baseline::windows_host_process),
];
const RESTRICTED: [Check; 7] = [
    since(8, restricted::privilege_escalation),
    since(22, restricted::capabilities),
    since(35, baseline::proc_mount_of_any),
    since(0, restricted::volumes),
    since(0, restricted::run_as_non_root),
    since(23, restricted::run_as_user),
    since(19, restricted::seccomp),
];

/// What a pod violates, in upstream's order.
pub fn evaluate(policy: LevelVersion, pod: &Subject<'_>) -> Vec<Violation> {
    let minor = match policy.version {
        Version::Minor(minor) => minor.min(NEWEST),
        Version::Latest => NEWEST,
    };
    let restricted = policy.level == Level::Restricted;
    let baseline = BASELINE.iter().filter(|check| !restricted || minor < check.superseded);
    let own = RESTRICTED.iter().filter(|_| restricted);
    match policy.level {
        Level::Privileged => Vec::new(),
        Level::Baseline | Level::Restricted => {
            let checks = baseline.chain(own).filter(|check| check.since <= minor);
            checks.filter_map(|check| (check.judge)(pod, minor)).collect()
        }
    }
}
