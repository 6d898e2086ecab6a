//! What is wrong with the pool as a whole.

use std::io;

use bowline_host::disk::Space;
use bowline_proto::csi::v1::StorageHealthErrorType as Status;

use crate::capacity::MIB;
use crate::error::{VolumeError, chain};
use crate::local::driver::Driver;

/// Free bytes below which the pool counts as full: no volume can be written to for long.
const FULL_BELOW: u64 = 64 * MIB;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageFinding {
    pub status: Status,
    pub reason: &'static str,
    pub message: String,
}

pub async fn of(driver: &Driver) -> Vec<StorageFinding> {
    let written = driver.pool.check_writable().await;
    let space = driver.pool.space().await;
    judge(&written, &space).into_iter().collect()
}

/// The worst of what writing and measuring said.
fn judge(written: &Result<(), VolumeError>, space: &Result<Space, VolumeError>) -> Option<StorageFinding> {
    let found = |status, reason, message: String| Some(StorageFinding { status, reason, message });
    let full = |why: String| found(Status::StorageDegraded, "PoolFull", format!("the pool is full: {why}"));
    match (written, space) {
        (Ok(()), Ok(space)) if space.available < FULL_BELOW => {
            full(format!("{} bytes are left; free some or make it larger", space.available))
        }
        (Ok(()), Ok(_)) => None,
        (Err(VolumeError::Unhealthy { source }), _) if is_full(source) => full(source.to_string()),
        (Err(VolumeError::Unhealthy { source }), _) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            let message =
                "the pool is read-only; look for an error of its disk in the kernel's log".to_owned();
            found(Status::StorageDegraded, "PoolReadOnly", message)
        }
        (Err(error), _) | (Ok(()), Err(error)) => {
            found(Status::StorageUnreachable, "PoolUnusable", chain(error))
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_judged() {
        let space = |available| Ok(Space { total: 1 << 40, available, inodes_total: 0, inodes_available: 0 });
        let failed = |errno| Err(VolumeError::Unhealthy { source: io::Error::from_raw_os_error(errno) });
        let lost = || {
            let source = io::Error::from_raw_os_error(5);
            Err(VolumeError::Disk { what: "measure pool", source })
        };
        let (degraded, unreachable) = (Status::StorageDegraded, Status::StorageUnreachable);
        let table = [
            ("well", Ok(()), space(FULL_BELOW), None),
            ("nearly full", Ok(()), space(FULL_BELOW - 1), Some((degraded, "PoolFull"))),
            ("full", failed(28), space(0), Some((degraded, "PoolFull"))),
            ("quota used up", failed(122), space(1 << 30), Some((degraded, "PoolFull"))),
            ("read-only", failed(30), space(1 << 30), Some((degraded, "PoolReadOnly"))),
            ("read-only and full", failed(30), space(0), Some((degraded, "PoolReadOnly"))),
            ("broken", failed(5), space(1 << 30), Some((unreachable, "PoolUnusable"))),
            ("cannot be measured", Ok(()), lost(), Some((unreachable, "PoolUnusable"))),
        ];
        for (name, written, space, expected) in table {
            let found = judge(&written, &space);
            assert_eq!(found.as_ref().map(|f| (f.status, f.reason)), expected, "{name}");
            assert!(found.is_none_or(|f| !f.message.is_empty()), "{name}");
        }
    }
}
