//! Bodies: requests are read whole up to a limit, answers are whole or streams.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::Stream;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::Instant;

use super::gzip::Packer;
use super::pace::Pace;
use crate::status::Status;

/// Upstream's limit of a request.
const BODY_MAX: usize = 3 << 20;
/// How long it may take to arrive.
const BODY: Duration = Duration::from_secs(15);
/// How much of a larger one is read and thrown away, so that its sender gets to hear of it.
const PASSED_OVER_MAX: usize = 32 << 20;

/// The body of every answer.
pub struct Body {
    content: Content,
    /// Dropped when the answer is sent, or nobody wants it any more.
    held: Vec<Box<dyn Any + Send>>,
    /// Of answers to a connection; callers in this process take what they want.
    pace: Option<Pace>,
    /// When a stream is over, if that is known.
    ends: Option<Instant>,
}

enum Content {
    Whole(Bytes),
    /// Made one after the other as they are sent; `left` is how many bytes are to come, if that is known.
    Pieces {
        next: Box<dyn Iterator<Item = Bytes> + Send>,
        left: Option<usize>,
    },
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Body { content: Content::Whole(bytes.into()), held: Vec::new(), pace: None, ends: None }
}

pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    Body { content: Content::Stream(Box::pin(chunks)), held: Vec::new(), pace: None, ends: None }
}

/// `size` is how many bytes all pieces have together, if that is known.
pub fn pieces(size: Option<usize>, pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    let content = Content::Pieces { next: Box::new(pieces), left: size };
    Body { content, held: Vec::new(), pace: None, ends: None }
}

impl Body {
    /// All of it, if it is there already.
    pub fn whole(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Pieces { .. } | Content::Stream(_) => None,
        }
    }

    /// Whether it goes on for as long as somebody listens.
    pub fn is_stream(&self) -> bool {
        matches!(self.content, Content::Stream(_))
    }

    /// The same with the moment at which it is over.
    pub fn ending(self, end: Instant) -> Self {
        Self { ends: Some(end), ..self }
    }

    pub fn ends(&self) -> Option<Instant> {
        self.ends
    }

    /// How many bytes are to come, if that is known.
    pub fn size(&self) -> Option<usize> {
        match &self.content {
            Content::Whole(bytes) => Some(bytes.len()),
            Content::Pieces { left, .. } => *left,
            Content::Stream(_) => None,
        }
    }

    /// The same content at once, if it is not larger than this. Streams stay as they are.
    pub fn gathered_within(self, max: usize) -> Self {
        let Content::Pieces { mut next, left } = self.content else { return self };
        let (mut made, mut size) = (Vec::<Bytes>::new(), 0);
        while size <= max {
            let Some(piece) = next.next() else {
                return Self { content: Content::Whole(made.concat().into()), ..self };
            };
            size += piece.len();
            made.push(piece);
        }
        let next = Box::new(made.into_iter().chain(next));
        Self { content: Content::Pieces { next, left }, ..self }
    }

    /// The same content compressed while it is sent. Streams stay as they are.
    pub fn compressed(self) -> Self {
        let next: Box<dyn Iterator<Item = Bytes> + Send> = match self.content {
            Content::Whole(bytes) => Box::new(Packer::new(slices(bytes))),
            Content::Pieces { next, .. } => Box::new(Packer::new(next)),
            Content::Stream(_) => return self,
        };
        Self { content: Content::Pieces { next, left: None }, ..self }
    }

    /// Makes each piece when the connection has sent the one before. `held` is kept until all of them are sent.
    pub fn paced(&mut self, held: impl Any + Send + Sync) {
        self.pace = Some(Pace::holding(held));
    }

    /// Keeps something until the end of the body.
    pub fn hold(&mut self, held: impl Any + Send) {
        self.held.push(Box::new(held));
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(pace) = &self.pace {
            ready!(pace.poll_sent(context));
        }
        let next = match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(std::mem::take(bytes))),
            Content::Pieces { next, left } => {
                let piece = next.next();
                let sent = piece.as_ref().map_or(0, Bytes::len);
                *left = left.map(|left| left.saturating_sub(sent));
                Poll::Ready(piece)
            }
            Content::Stream(chunks) => chunks.as_mut().poll_next(context),
        };
        if let Poll::Ready(None) = next {
            self.held.clear();
        }
        let counted = |chunk: Bytes| match &self.pace {
            Some(pace) => pace.count(chunk),
            None => chunk,
        };
        next.map(|chunk| chunk.map(|chunk| Ok(Frame::data(counted(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.size() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.size().map(|size| SizeHint::with_exact(size as u64)).unwrap_or_default()
    }
}

/// Parts that are compressed in a moment.
fn slices(bytes: Bytes) -> impl Iterator<Item = Bytes> + Send {
    const SLICE: usize = 64 << 10;
    let starts = (0..bytes.len()).step_by(SLICE);
    starts.map(move |start| bytes.slice(start..bytes.len().min(start + SLICE)))
}

/// Reads a request that has a seat: a client that sends a byte now and then does not keep it.
pub async fn read_in_time<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let late = |_| Err(Status::bad_request(format!("the request body did not arrive within {BODY:?}")));
    tokio::time::timeout(BODY, read(body)).await.unwrap_or_else(late)
}

/// Reads a request.
pub async fn read<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    let (mut kept, mut seen) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Status::bad_request(format!("read the request body: {}", error.into())))?;
        let Ok(mut data) = frame.into_data() else { continue };
        seen += data.remaining();
        if seen <= BODY_MAX {
            kept.put(&mut data);
        } else if seen > PASSED_OVER_MAX {
            break;
        } else {
            // A client that still sends does not hear the answer.
            kept.clear();
        }
    }
    if seen > BODY_MAX { Err(Status::too_large(&format!("limit is {BODY_MAX}"))) } else { Ok(kept.freeze()) }
}

/// Parses a JSON body.
pub fn parse(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the body of the request is not JSON: {error}")))
}
