//! Names, timing and flags of leader election, as upstream has them.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a lease counts, when a leader gives up, and how often it is written or looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    pub lease: Duration,
    pub renew: Duration,
    pub retry: Duration,
}

impl Timing {
    /// Defaults of the CSI sidecars.
    pub const SIDECARS: Self = Self::seconds(15, 10, 5);
    /// Defaults of kube-controller-manager and kube-scheduler.
    pub const CORE: Self = Self::seconds(15, 10, 2);

    const fn seconds(lease: u64, renew: u64, retry: u64) -> Self {
        let (lease, renew) = (Duration::from_secs(lease), Duration::from_secs(renew));
        Self { lease, renew, retry: Duration::from_secs(retry) }
    }

    /// From flags. Others see the lease duration in whole seconds, so no more than those count here.
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!(
                "leader election with lease duration {lease:?}, renew deadline {renew:?} and retry period {retry:?}: {why}"
            ))
        };
        let whole = Duration::from_secs(lease.as_secs());
        if whole <= renew {
            return wrong("the lease duration must be longer than the renew deadline");
        }
        if renew <= retry.mul_f64(1.2) {
            return wrong("the renew deadline must be longer than 1.2 times the retry period");
        }
        if retry.is_zero() {
            return wrong("the retry period must be longer than none");
        }
        Ok(Self { lease: whole, renew, retry })
    }
}

/// Which lease, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    pub identity: String,
    /// Put on the lease by the leader.
    pub labels: BTreeMap<String, String>,
    pub timing: Timing,
    /// Hand the lease over when stopped. Only right when all work has ended by then.
    pub release_on_exit: bool,
}

/// A lock's name as the sidecars make it: `external-attacher-leader-hostpath.csi.k8s.io` has dots and a lease may not.
pub fn sanitize(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let mut name: String = name.chars().map(allowed).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    name
}

/// Reads `--leader-election-labels`: `k:v,k2:v2`.
pub fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pair = |item: &str| match item.split(':').collect::<Vec<_>>()[..] {
        [key, value] if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{item}` is not a label such as `key:value`")),
    };
    text.split(',').filter(|item| !item.is_empty()).map(pair).collect()
}
