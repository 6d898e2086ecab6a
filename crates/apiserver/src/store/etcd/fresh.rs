//! One question for many askers.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// Shares answers among callers: an answer, or its failure, serves everyone who came before its question was sent.
pub struct Asker<T> {
    came: AtomicU64,
    last: Mutex<Option<Answer<T>>>,
}

struct Answer<T> {
    /// Everyone up to this one had come when the question was sent.
    covers: u64,
    answer: T,
}

impl<T: Clone> Asker<T> {
    pub fn new() -> Self {
        Self { came: AtomicU64::new(0), last: Mutex::new(None) }
    }

    /// Asks, or takes the answer to a question that was sent after this call began.
    pub async fn ask<F: Future<Output = T>>(&self, question: impl FnOnce() -> F) -> T {
        let mine = self.came.fetch_add(1, Ordering::SeqCst) + 1;
        // Whoever comes while a question is under way waits here; then one of them asks for all.
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.covers >= mine) {
            return last.answer.clone();
        }
        let covers = self.came.load(Ordering::SeqCst);
        let answer = question().await;
        *last = Some(Answer { covers, answer: answer.clone() });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn whoever_comes_during_a_question_shares_the_next_one() {
        let asker = Asker::new();
        let asked = Cell::new(0);
        let (go, wait) = oneshot::channel::<()>();
        let ask = |answer| {
            asked.set(asked.get() + 1);
            async move { answer }
        };
        let mut first = Box::pin(asker.ask(|| async {
            asked.set(asked.get() + 1);
            let _ = wait.await;
            1
        }));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = Box::pin(asker.ask(|| ask(2)));
        let mut third = Box::pin(asker.ask(|| ask(3)));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert_eq!(asked.get(), 1);
        go.send(()).unwrap();
        assert_eq!(first.now_or_never(), Some(1));
        assert_eq!(second.now_or_never(), Some(2), "an answer from before it came will not do");
        assert_eq!(third.now_or_never(), Some(2), "this one came before the second question was sent");
        assert_eq!(asked.get(), 2);
        assert_eq!(asker.ask(|| ask(4)).now_or_never(), Some(4));
    }

    #[test]
    fn who_goes_away_does_not_take_the_turn_along() {
        let asker = Asker::new();
        let mut gone = Box::pin(asker.ask(std::future::pending));
        assert!(gone.as_mut().now_or_never().is_none());
        let mut next = Box::pin(asker.ask(|| async { 5 }));
        assert!(next.as_mut().now_or_never().is_none());
        drop(gone);
        assert_eq!(next.now_or_never(), Some(5));
    }
}
