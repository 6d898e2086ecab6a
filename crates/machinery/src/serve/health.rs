//! Health checks and what is said about them, in upstream's format.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;

use super::pages::Answer;

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
        Self::passed("ping")
    }

    /// Lists something that has nothing to fail.
    pub fn passed(name: impl Into<String>) -> Self {
        Self::new(name, || std::future::ready(Ok(())))
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

/// The checks of one page; clones share them, and more may be added while it is served.
#[derive(Clone, Default)]
pub struct Checks(Arc<Mutex<Vec<Check>>>);

impl Checks {
    pub fn add(&self, check: Check) {
        self.lock().push(check);
    }

    /// As upstream has it: a page without checks has `ping`.
    pub(super) fn all(&self) -> Vec<Check> {
        let checks = self.lock().clone();
        if checks.is_empty() { vec![Check::ping()] } else { checks }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Check>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Vec<Check>> for Checks {
    fn from(checks: Vec<Check>) -> Self {
        Self(Arc::new(Mutex::new(checks)))
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
