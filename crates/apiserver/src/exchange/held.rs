//! What a request holds until its answer is sent.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::http::body::Body;
use crate::limits::Seat;

/// How long a client may take to read an answer, and the end of a stream that is over. Upstream gives it what is left of a
/// minute.
const READ_MAX: Duration = Duration::from_secs(60);

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
    /// others, and there is no way to end one answer alone: it loses its connection. That holds for small answers, too:
    /// with HTTP/2 a client decides how much of an answer is sent.
    pub fn until_sent(self, body: &mut Body) {
        let Some(Abort(connection)) = self.abort else { return body.hold(self.seat) };
        let until = match body.is_stream() {
            false => Some(Instant::now() + READ_MAX),
            true => body.ends().map(|end| end + READ_MAX),
        };
        let patience = until.map(|until| {
            let waiting = tokio::spawn(async move {
                tokio::time::sleep_until(until).await;
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
    use crate::http::body::{full, pieces, stream};

    fn held() -> (Held, CancellationToken) {
        let connection = CancellationToken::new();
        (Held { seat: None, abort: Some(Abort(connection.clone())) }, connection)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_an_answer_loses_its_connection() {
        let (held, connection) = held();
        let piece = bytes::Bytes::from(vec![b'x'; 1000]);
        let mut body = pieces(Some(3000), vec![piece; 3].into_iter());
        held.until_sent(&mut body);
        let unread = body.frame().await;
        assert!(futures::poll!(std::pin::pin!(body.frame())).is_pending(), "the next one waits");
        tokio::time::timeout(READ_MAX / 2, connection.cancelled()).await.unwrap_err();
        drop(unread);
        drop(body.frame().await);
        tokio::time::timeout(READ_MAX, connection.cancelled()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_of_any_size_ends_its_connection() {
        for content in [Vec::new(), vec![b'x'; 5], vec![b'x'; 200_000]] {
            let (held, connection) = held();
            let mut body = full(content);
            held.until_sent(&mut body);
            tokio::time::timeout(READ_MAX * 2, connection.cancelled()).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_read_ends_nothing() {
        for content in [Vec::new(), vec![b'x'; 5], vec![b'x'; 200_000]] {
            let (held, connection) = held();
            let mut body = full(content);
            held.until_sent(&mut body);
            while body.frame().await.is_some() {}
            drop(body);
            tokio::time::timeout(READ_MAX * 2, connection.cancelled()).await.unwrap_err();
        }
    }
    #[tokio::test(start_paused = true)]
    async fn an_unread_stream_ends_its_connection_once_it_is_over() {
        const LASTS: Duration = Duration::from_secs(600);
        let (first, connection) = held();
        let mut body = stream(futures::stream::pending()).ending(Instant::now() + LASTS);
        first.until_sent(&mut body);
        tokio::time::timeout(LASTS, connection.cancelled()).await.unwrap_err();
        tokio::time::timeout(2 * READ_MAX, connection.cancelled()).await.unwrap();

        let (endless, connection) = held();
        let mut body = stream(futures::stream::pending());
        endless.until_sent(&mut body);
        tokio::time::timeout(10 * LASTS, connection.cancelled()).await.unwrap_err();
    }
}
