//! Questions that may never be answered, such as the figures of a filesystem whose disk is gone.
//!
//! Such a question holds a thread until the kernel gives up. So each is asked on its own, its caller waits only so
//! long, the same question is not asked again while it is open, and there are only so many.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Instrument;

use crate::error::VolumeError;

/// Callers wait for minutes at most, and they ask for every volume in turn.
const WAIT: Duration = Duration::from_secs(10);
/// Far below the threads there are for waiting (512), which everything else needs as well.
const OPEN_MAX: usize = 64;

/// The paths that were asked for and gave no answer yet.
#[derive(Clone, Default)]
pub struct Patience(Arc<Mutex<BTreeSet<PathBuf>>>);

struct Open {
    path: PathBuf,
    all: Patience,
}

impl Patience {
    pub async fn ask<T: Send + 'static>(
        &self,
        path: &Path,
        question: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let open = self.open(path)?;
        let asked = async move {
            let answer = question.await;
            drop(open);
            answer
        };
        let asked = tokio::spawn(asked.in_current_span());
        match tokio::time::timeout(WAIT, asked).await {
            Ok(answer) => answer.unwrap_or(Err(VolumeError::Lost)),
            Err(_) => Err(VolumeError::Silent { path: path.to_owned() }),
        }
    }

    fn open(&self, path: &Path) -> Result<Open, VolumeError> {
        let mut paths = self.lock();
        if paths.contains(path) {
            return Err(VolumeError::Silent { path: path.to_owned() });
        }
        if paths.len() >= OPEN_MAX {
            return Err(VolumeError::Crowded { count: OPEN_MAX });
        }
        paths.insert(path.to_owned());
        Ok(Open { path: path.to_owned(), all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.all.lock().remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tonic::Code;

    use super::*;

    async fn never() -> Result<(), VolumeError> {
        pending().await
    }

    fn code<T>(answer: Result<T, VolumeError>) -> Option<Code> {
        answer.err().map(|error| error.code())
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_answer_stays_one_question() {
        let patience = Patience::default();
        let path = Path::new("/hangs");
        let (answer, answered) = oneshot::channel::<()>();
        let question = async { answered.await.map_err(|_| VolumeError::Lost) };
        assert_eq!(code(patience.ask(path, question).await), Some(Code::DeadlineExceeded));
        assert_eq!(
            code(patience.ask(path, async { Ok(()) }).await),
            Some(Code::DeadlineExceeded),
            "still open"
        );
        assert_eq!(patience.ask(Path::new("/other"), async { Ok(7) }).await.ok(), Some(7));
        answer.send(()).expect("somebody waits");
        tokio::task::yield_now().await;
        assert_eq!(patience.ask(path, async { Ok(7) }).await.ok(), Some(7), "asked anew");
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_open() {
        let patience = Patience::default();
        for number in 0..OPEN_MAX {
            let path = PathBuf::from(format!("/hangs/{number}"));
            assert_eq!(code(patience.ask(&path, never()).await), Some(Code::DeadlineExceeded));
        }
        assert_eq!(code(patience.ask(Path::new("/fine"), async { Ok(()) }).await), Some(Code::Unavailable));
    }
}
