//! A watch on its way: each event a little later, in order, until the line is cut.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::Caller;
use crate::fault::{Fault, Kind};

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// How long a slow watch holds back each event.
const SLOW: Duration = Duration::from_secs(8);
/// How long a watch that is to be cut goes on.
const CUT_AFTER: Duration = Duration::from_secs(3);

const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
    r#""message":"too old resource version","reason":"Expired","code":410}}"#,
    "\n"
);

/// `died` is when the server dies.
pub fn carried(body: Body, caller: Caller, died: CancellationToken, fault: Option<Fault>) -> Body {
    let kind = fault.map(|fault| fault.kind);
    let delayed = caller.clone();
    let frames = BodyStream::new(body).then(move |frame| {
        let caller = delayed.clone();
        async move {
            if kind == Some(Kind::SlowWatch) {
                tokio::time::sleep(SLOW).await;
            }
            caller.shared.hold_up().await;
            caller.life.pass().await;
            match caller.life.cut_off_until() {
                Some(until) => {
                    tokio::time::sleep_until(until).await;
                    Err("the watch was cut off".into())
                }
                None => frame,
            }
        }
    });
    let reset = died.clone();
    let reset = async move { reset.is_cancelled().then(|| Err("connection reset by peer".into())) };
    let frames = frames.take_until(died.cancelled_owned());
    let frames = frames.chain(futures::stream::once(reset).filter_map(std::future::ready));
    match kind {
        Some(Kind::CutWatch) => {
            let cut = async { Err::<Frame<Bytes>, BoxError>("connection reset by peer".into()) };
            ending(frames.boxed(), cut).boxed_unsync()
        }
        Some(Kind::Gone) => {
            ending(frames.boxed(), async { Ok(Frame::data(Bytes::from(EXPIRED))) }).boxed_unsync()
        }
        _ => StreamBody::new(frames).boxed_unsync(),
    }
}

/// The first events, then one last thing.
fn ending(
    frames: futures::stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>>,
    last: impl Future<Output = Result<Frame<Bytes>, BoxError>> + Send + 'static,
) -> StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, BoxError>> + Send> {
    let until = Instant::now() + CUT_AFTER;
    let first = frames.take_until(tokio::time::sleep_until(until));
    StreamBody::new(first.chain(futures::stream::once(last)))
}
