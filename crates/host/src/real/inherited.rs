//! What a container's processes would take over from the process that started them, and shall not: ignored signals, limits,
//! and the protection against being ended when memory runs out.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::raw;

const OOM_SCORE_ADJUSTMENT: &str = "/proc/self/oom_score_adj";

/// Soft and hard limit; none is without limit. Those that service managers start programs with: what a container may
/// use up is limited by its control groups. Programs that need more files ask for them.
const LIMITS: [(Resource, Option<u64>, Option<u64>); 10] = [
    (Resource::Cpu, None, None),
    (Resource::Fsize, None, None),
    (Resource::Data, None, None),
    (Resource::Rss, None, None),
    (Resource::As, None, None),
    (Resource::Nproc, None, None),
    (Resource::Stack, Some(8 << 20), None),
    (Resource::Core, Some(0), None),
    (Resource::Memlock, Some(8 << 20), Some(8 << 20)),
    (Resource::Nofile, Some(1024), Some(524_288)),
];

/// Sets all of it to what a fresh machine would give a program, for this process and all that it starts.
pub(super) fn reset() -> io::Result<()> {
    raw::heed_signals();
    for (resource, current, maximum) in LIMITS {
        limit(resource, Rlimit { current, maximum })?;
    }
    // One that is more likely to be ended than others stays so.
    let adjustment = fs::read_to_string(OOM_SCORE_ADJUSTMENT)?;
    if adjustment.trim_start().starts_with('-') {
        fs::write(OOM_SCORE_ADJUSTMENT, "0")?;
    }
    Ok(())
}

/// Where this process may not raise a limit, as root of a container may not, the most that it has is what there is.
fn limit(resource: Resource, wanted: Rlimit) -> io::Result<()> {
    match setrlimit(resource, wanted) {
        Err(Errno::PERM) => {
            let most = getrlimit(resource).maximum;
            let within = |wanted: Option<u64>| match (wanted, most) {
                (Some(wanted), Some(most)) => Some(wanted.min(most)),
                (wanted, most) => wanted.or(most),
            };
            let Rlimit { current, maximum } = wanted;
            Ok(setrlimit(resource, Rlimit { current: within(current), maximum: within(maximum) })?)
        }
        result => Ok(result?),
    }
}
