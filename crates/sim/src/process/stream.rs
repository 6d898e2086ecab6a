//! Sockets that close when their process dies.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bowline_host::net::{BoxStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::life::Life;

/// One end of a connection. The other end sees it close when the process dies.
pub struct MortalStream {
    inner: Option<BoxStream>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl MortalStream {
    pub fn new(inner: BoxStream, life: &Life) -> Self {
        Self { inner: Some(inner), ended: Box::pin(life.token().cancelled_owned()) }
    }

    /// The connection, as long as the process lives.
    fn alive(&mut self, cx: &mut Context<'_>) -> Option<Pin<&mut BoxStream>> {
        if self.inner.is_some() && self.ended.as_mut().poll(cx).is_ready() {
            self.inner = None;
        }
        self.inner.as_mut().map(Pin::new)
    }
}

impl AsyncRead for MortalStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.alive(cx).map_or(Poll::Pending, |stream| stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for MortalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.alive(cx).map_or(Poll::Pending, |stream| stream.poll_write(cx, bytes))
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive(cx).map_or(Poll::Pending, |stream| stream.poll_flush(cx))
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive(cx).map_or(Poll::Pending, |stream| stream.poll_shutdown(cx))
    }
}

/// A listening socket that refuses once the process has died.
pub struct MortalListener {
    inner: Option<Box<dyn Listener>>,
    life: Life,
}

impl MortalListener {
    pub fn new(inner: Box<dyn Listener>, life: Life) -> Self {
        Self { inner: Some(inner), life }
    }
}

#[async_trait]
impl Listener for MortalListener {
    async fn accept(&mut self) -> io::Result<BoxStream> {
        let accepted = match &mut self.inner {
            Some(listener) => tokio::select! {
                biased;
                () = self.life.ended() => None,
                accepted = listener.accept() => Some(accepted),
            },
            None => None,
        };
        match accepted {
            Some(accepted) => Ok(Box::new(MortalStream::new(accepted?, &self.life))),
            None => {
                self.inner = None;
                std::future::pending().await
            }
        }
    }
}
