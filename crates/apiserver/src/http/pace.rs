//! How much of an answer is on its way: the next piece is made once the connection has sent the one before, so that a
//! client that does not read holds one piece and not the whole answer.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::task::AtomicWaker;

/// Counts the pieces of one answer that the connection still holds.
#[derive(Default)]
pub struct Pace {
    unsent: Arc<Unsent>,
}

#[derive(Default)]
struct Unsent {
    pieces: AtomicUsize,
    waker: AtomicWaker,
    /// Dropped with the answer and its last piece.
    _until_sent: Option<Box<dyn Any + Send + Sync>>,
}

/// A piece that tells when the connection lets go of it.
struct Piece {
    bytes: Bytes,
    unsent: Arc<Unsent>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.unsent.pieces.fetch_sub(1, Ordering::AcqRel);
        self.unsent.waker.wake();
    }
}

impl Pace {
    /// Keeps something until everything was sent, or the client has gone.
    pub fn holding(held: impl Any + Send + Sync) -> Self {
        let unsent = Unsent { _until_sent: Some(Box::new(held)), ..Unsent::default() };
        Self { unsent: Arc::new(unsent) }
    }

    /// Ready once everything so far was sent.
    pub fn poll_sent(&self, context: &Context<'_>) -> Poll<()> {
        let sent = || self.unsent.pieces.load(Ordering::Acquire) == 0;
        if sent() {
            return Poll::Ready(());
        }
        self.unsent.waker.register(context.waker());
        // It may have been sent in between.
        if sent() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The same bytes, counted until they are dropped.
    pub fn count(&self, bytes: Bytes) -> Bytes {
        self.unsent.pieces.fetch_add(1, Ordering::AcqRel);
        Bytes::from_owner(Piece { bytes, unsent: self.unsent.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_piece_waits_for_the_one_before() {
        let held = Arc::new(());
        let pace = Pace::holding(held.clone());
        let waker = futures::task::noop_waker();
        let context = Context::from_waker(&waker);
        assert_eq!(pace.poll_sent(&context), Poll::Ready(()));
        let piece = pace.count(Bytes::from_static(b"abc"));
        let half = piece.slice(1..);
        drop(piece);
        assert_eq!(pace.poll_sent(&context), Poll::Pending, "a part of it is not sent");
        drop(half);
        assert_eq!(pace.poll_sent(&context), Poll::Ready(()));
        let last = pace.count(Bytes::from_static(b"d"));
        drop(pace);
        assert_eq!(Arc::strong_count(&held), 2, "held until the last piece is sent");
        drop(last);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
