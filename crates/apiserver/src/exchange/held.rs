//! What a request holds until its answer is sent.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::http::body::Body;
use crate::limits::Seat;

/// How long a client may take to read an answer that is no stream. Upstream gives it what is left of a minute.
const READ_MAX: Duration = Duration::from_secs(60);
/// Smaller answers fit into the buffers of any connection.
const LARGE: usize = 64 << 10;

/// Ends a connection; put into the extensions of its requests.
#[derive(Debug, Clone)]
pub struct Abort(pub CancellationToken);

#[derive(Default)]
pub struct Held {
    pub seat: Option<Arc<Seat>>,
    abort: Option<Abort>,
}

/// Waits for a client that does not read.
struct Patience(AbortHandle);

impl Drop for Patience {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Held {
    pub fn of(head: &Parts) -> Self {
        Self { seat: None, abort: head.extensions.get().cloned() }
    }

    /// Kept until the connection has sent all of the body. A client that reads too slowly must not keep the seat from
    /// others, and there is no way to end one answer alone: it loses its connection.
    pub fn until_sent(self, body: &mut Body) {
        let Some(Abort(connection)) = self.abort else { return body.hold(self.seat) };
        let large = !body.is_stream() && body.size().is_none_or(|size| size > LARGE);
        let patience = large.then(|| {
            let waiting = tokio::spawn(async move {
                tokio::time::sleep(READ_MAX).await;
                tracing::info!("closing a connection: its client does not read an answer");
                connection.cancel();
            });
            Patience(waiting.abort_handle())
        });
        body.paced((self.seat, patience));
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::http::body::{full, pieces};

    fn held() -> (Held, CancellationToken) {
        let connection = CancellationToken::new();
        (Held { seat: None, abort: Some(Abort(connection.clone())) }, connection)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_an_answer_loses_its_connection() {
        let (held, connection) = held();
        let piece = bytes::Bytes::from(vec![b'x'; LARGE]);
        let mut body = pieces(3 * LARGE, vec![piece; 3].into_iter());
        held.until_sent(&mut body);
        let unread = body.frame().await;
        assert!(futures::poll!(std::pin::pin!(body.frame())).is_pending(), "the next one waits");
        tokio::time::timeout(READ_MAX / 2, connection.cancelled()).await.unwrap_err();
        drop(unread);
        drop(body.frame().await);
        tokio::time::timeout(READ_MAX, connection.cancelled()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_or_is_small_ends_nothing() {
        let (large, one) = held();
        let mut body = full(vec![b'x'; 2 * LARGE]);
        large.until_sent(&mut body);
        while body.frame().await.is_some() {}
        drop(body);
        let (small, other) = held();
        let mut body = full("small");
        small.until_sent(&mut body);
        let both = async {
            tokio::select! { () = one.cancelled() => {}, () = other.cancelled() => {} }
        };
        tokio::time::timeout(2 * READ_MAX, both).await.unwrap_err();
    }
}
