//! Memory of a process, as the kernel counts it.

use anyhow::{Context, Result};

/// Resident memory in KiB: now, and the most there ever was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    pub now_kib: u64,
    pub peak_kib: u64,
}

pub fn resident(pid: u32) -> Result<Resident> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("read `{path}`"))?;
    parse(&status).with_context(|| format!("find VmRSS and VmHWM in `{path}`"))
}

fn parse(status: &str) -> Option<Resident> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Resident { now_kib: field("VmRSS:")?, peak_kib: field("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_or_none() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse(status), Some(Resident { now_kib: 1024, peak_kib: 2048 }));
        assert_eq!(parse("VmRSS:\t 1024 kB\n"), None);
        let own = resident(std::process::id()).unwrap();
        assert!(own.now_kib > 0 && own.peak_kib >= own.now_kib, "{own:?}");
    }
}
