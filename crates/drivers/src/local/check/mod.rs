//! `bowline driver local check`: an audit of a pool and of what the kernel makes of it.
//!
//! `observe` gathers facts and changes nothing, so it may run beside the driver; `decide` finds what is wrong and
//! what would provably put it right; `act` does that, one effect at a time, and only with the pool to itself. What
//! holds data and has no owner is never removed: the finding says where it is and how to remove it by hand.
//!
//! Reading order: `facts` → `decide` → `observe`, `act`.

mod act;
mod decide;
mod facts;
mod observe;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use bowline_host::Host;

pub use self::report::{Finding, Repair, Report, Severity};
use super::claim;
use crate::error::VolumeError;

#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("`{0}` is no pool of this driver: it has no `volumes` directory")]
    NoPool(PathBuf),
    #[error("check pool `{pool}`")]
    Failed { pool: PathBuf, source: VolumeError },
}

/// Looks at a pool, also while a driver serves it.
pub async fn check(host: &Host, pool: &Path) -> Result<Report, CheckError> {
    let facts = observe::facts(host, pool).await?;
    let proposals = decide::proposals(&facts);
    Ok(Report::new(&facts, proposals.into_iter().map(|proposal| proposal.finding).collect()))
}

/// Looks at a pool that nobody serves, and puts right what provably can be.
pub async fn repair(host: &Host, pool: &Path) -> Result<Report, CheckError> {
    // Before anything else: a lock is a file, and this may be no pool.
    observe::require_pool(host, pool).await?;
    let failed = |source| CheckError::Failed { pool: pool.to_owned(), source };
    let _claimed = claim::take(host, pool).await.map_err(failed)?;
    let facts = observe::facts(host, pool).await?;
    let mut findings = Vec::new();
    for proposal in decide::proposals(&facts) {
        findings.push(act::act(host, proposal).await);
    }
    Ok(Report::new(&facts, findings))
}
