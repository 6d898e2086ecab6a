//! What a start does about operations that a crash cut short.

use super::driver::Driver;
use super::record::Phase;
use super::{group, moment, snapshot};
use crate::error::chain;

/// Lets workloads go on first, then removes snapshots and groups that were half made or half removed. None of
/// it keeps the driver from starting: what stays is hidden from callers, and tried again next time.
pub async fn settle(driver: &Driver) {
    if let Err(error) = moment::freezing::thaw_all(driver).await {
        tracing::error!(error = chain(&error), "cannot tell whether filesystems are frozen");
    }
    for (id, record) in driver.pool.groups.all() {
        if record.phase != Phase::Ready {
            group::cut::discard(driver, &id).await;
        }
    }
    for (id, record) in driver.pool.snapshots.all() {
        if record.phase != Phase::Ready && snapshot::group_of(driver, &record).is_none() {
            snapshot::discard(driver, &id).await;
        }
    }
}
