//! Who writes down how long each call took.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::figures::Timings;

/// A driver that does not answer at all shall not hold up the benchmark for ever.
const ANSWER_MAX: Duration = Duration::from_secs(600);

/// The calls of a volume's life, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::enum_variant_names, reason = "the specification's names")]
pub enum Rpc {
    CreateVolume,
    ControllerPublishVolume,
    NodeStageVolume,
    NodePublishVolume,
    NodeUnpublishVolume,
    NodeUnstageVolume,
    ControllerUnpublishVolume,
    DeleteVolume,
}

impl Rpc {
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

#[derive(Default)]
pub struct Log(Mutex<BTreeMap<Rpc, Timings>>);

impl Log {
    /// Makes a call and writes down how long it took, or why it failed.
    pub async fn time<T>(&self, rpc: Rpc, call: impl Future<Output = Result<T>>) -> Result<T> {
        let began = Instant::now();
        let ended = match tokio::time::timeout(ANSWER_MAX, call).await {
            Ok(ended) => ended,
            Err(_) => Err(anyhow::anyhow!("no answer within {} s", ANSWER_MAX.as_secs())),
        };
        let took = began.elapsed();
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let timings = timings.entry(rpc).or_default();
        match ended {
            Ok(answer) => {
                timings.worked(took);
                Ok(answer)
            }
            Err(error) => {
                timings.failed(format!("{error:#}"));
                bail!("{}: {error:#}", rpc.name())
            }
        }
    }

    pub fn take(self) -> BTreeMap<Rpc, Timings> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_are_kept_apart_by_name_and_end() {
        let log = Log::default();
        log.time(Rpc::CreateVolume, async { Ok(()) }).await.unwrap();
        let failing = async { Err::<(), _>(anyhow::anyhow!("full")) };
        let error = log.time(Rpc::DeleteVolume, failing).await.unwrap_err();
        assert_eq!(error.to_string(), "DeleteVolume: full");
        let timings = log.take();
        assert_eq!(timings[&Rpc::CreateVolume].count(), 1);
        assert_eq!(timings[&Rpc::DeleteVolume].first_failure(), Some("full"));
    }
}
