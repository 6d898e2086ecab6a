//! Health checks and what is said about them, in upstream's format.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::pages::Answer;

/// How long a leader may be late with its renewal before it counts as unhealthy.
const RENEWAL_SLACK: Duration = Duration::from_secs(20);

type Outcome = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// One thing that can be wrong with a program.
#[derive(Clone)]
pub struct Check {
    pub name: String,
    run: Arc<dyn Fn() -> Outcome + Send + Sync>,
}

impl Check {
    /// `run` says what is wrong.
    pub fn new<F, Fut>(name: impl Into<String>, run: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self { name: name.into(), run: Arc::new(move || Box::pin(run())) }
    }

    /// Healthy as long as the program answers at all.
    pub fn ping() -> Self {
        Self::new("ping", || std::future::ready(Ok(())))
    }

    /// The page of this check alone.
    pub(super) async fn answer(&self) -> Answer {
        match (self.run)().await {
            Ok(()) => Answer::ok("ok"),
            Err(why) => {
                tracing::warn!(check = %self.name, error = %why, "health check failed");
                Answer::new(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n"))
            }
        }
    }
}

/// The page of all checks below `path`. `?verbose` lists them, `?exclude=name` leaves some out. Why one failed is in the
/// log and on the page of that check; this one is open to all.
pub(super) async fn answer(path: &str, query: &str, checks: &[Check]) -> Answer {
    let parameters: Vec<&str> = query.split('&').collect();
    let verbose =
        parameters.iter().any(|parameter| *parameter == "verbose" || parameter.starts_with("verbose="));
    let excluded: Vec<&str> =
        parameters.iter().filter_map(|parameter| parameter.strip_prefix("exclude=")).collect();
    let title = path.trim_matches('/');
    let (mut lines, mut failed) = (String::new(), false);
    for check in checks {
        let name = &check.name;
        if excluded.contains(&name.as_str()) {
            lines += &format!("[+]{name} excluded: ok\n");
            continue;
        }
        match (check.run)().await {
            Ok(()) => lines += &format!("[+]{name} ok\n"),
            Err(why) => {
                tracing::warn!(check = %name, error = %why, "health check failed");
                lines += &format!("[-]{name} failed: reason withheld\n");
                failed = true;
            }
        }
    }
    match (failed, verbose) {
        (true, _) => Answer::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{title} check failed\n")),
        (false, true) => Answer::ok(format!("{lines}{title} check passed\n")),
        (false, false) => Answer::ok("ok"),
    }
}

/// What is known about the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    Standby,
    /// This process leads; the Lease was renewed this long ago.
    Leading(Duration),
}

/// A standby is healthy. A leader is not once it has failed to renew for the lease duration and twenty seconds: by then
/// it should have ended.
pub fn leader_election(renewal: Renewal, lease_duration: Duration) -> Result<(), String> {
    match renewal {
        Renewal::Leading(ago) if ago > lease_duration.saturating_add(RENEWAL_SLACK) => {
            Err(format!("the leader did not renew its lease for {ago:?}"))
        }
        Renewal::Standby | Renewal::Leading(_) => Ok(()),
    }
}
