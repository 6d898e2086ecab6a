//! A part that fails is reported and started again; it ends neither the process nor its neighbours.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use crate::ports::{Ports, RunError};
use crate::sidecar::Sidecar;

/// First and longest pause before a part is started again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// A part that ran this long has recovered: the next failure is a first one.
const RECOVERED: Duration = Duration::from_secs(600);

/// Runs a part until the process stops, however often it fails.
pub fn supervised<F, Fut>(
    part: &'static str,
    ports: &Ports,
    start: F,
) -> impl Future<Output = Result<(), RunError>> + Send + use<F, Fut>
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), RunError>> + Send,
{
    let stop = ports.stop.clone();
    async move {
        let mut pause = PAUSE.0;
        loop {
            let begun = Instant::now();
            let ended = match catch_unwind(AssertUnwindSafe(&start)) {
                Ok(part) => AssertUnwindSafe(part).catch_unwind().await,
                Err(panic) => Err(panic),
            };
            if stop.is_cancelled() {
                return Ok(());
            }
            // Another replica works now: this process is to end, as upstream's does.
            if let Ok(Err(lost @ RunError::LeaseLost(_))) = ended {
                return Err(lost);
            }
            if begun.elapsed() >= RECOVERED {
                pause = PAUSE.0;
            }
            tracing::error!(part, why = why(ended), again_in = ?pause, "ended, will be started again");
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

/// A role beside its driver. It ends when the driver is replaced, since what the driver can do was asked before; what is in
/// flight is finished first.
pub async fn beside<Fut>(
    sidecar: &Sidecar,
    ports: &Ports,
    role: impl FnOnce(Ports) -> Fut,
) -> Result<(), RunError>
where
    Fut: Future<Output = Result<(), RunError>>,
{
    let stop = ports.stop.child_token();
    let mut running = pin!(role(ports.until(stop.clone())));
    let replaced = tokio::select! {
        biased;
        ended = &mut running => return ended,
        replaced = sidecar.replaced() => replaced,
    };
    stop.cancel();
    running.await?;
    Err(replaced)
}

fn why(ended: Result<Result<(), RunError>, Box<dyn Any + Send>>) -> String {
    match ended {
        Ok(Ok(())) => "without being asked to".into(),
        Ok(Err(error)) => match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            format!("panicked: {}", text.unwrap_or("without a message"))
        }
    }
}

#[cfg(test)]
mod tests;
