//! Answers that are streams: how they end stands in their trailers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::observation::Observation;

/// The same stream, observed to its end.
pub fn watched(inner: Body, observation: Observation) -> Body {
    Body::new(Watched { inner, observation: Some(observation.streaming()) })
}

struct Watched {
    inner: Body,
    observation: Option<Observation>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let code = match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                frame.trailers_ref().and_then(Status::from_header_map).map(|status| status.code())
            }
            Poll::Ready(Some(Err(status))) => Some(status.code()),
            Poll::Ready(None) | Poll::Pending => None,
        };
        if let Some(code) = code
            && let Some(observation) = self.observation.take()
        {
            observation.end(code);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
