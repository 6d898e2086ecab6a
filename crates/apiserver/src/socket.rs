//! A connection whose socket can still be set up differently after it was handed on.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What the kernel keeps of an answer that was not sent yet.
const UNSENT_MAX: u32 = 128 << 10;
/// A peer that takes nothing of what waits for it in this time is gone.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// Finds peers that vanished without a word.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Clones share the socket.
#[derive(Clone)]
pub struct Socket(Arc<TcpStream>);

impl Socket {
    pub fn new(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }

    /// As connections are that carry requests.
    pub fn configure(&self) -> io::Result<()> {
        // Small answers must not wait for each other.
        self.0.set_nodelay(true)?;
        let socket = SockRef::from(self.0.as_ref());
        // A watch over HTTP/1.1 has nothing else that tells whether a client is still there.
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE))?;
        // With data on its way there are no keep-alives, and the kernel would try for a quarter of an hour.
        socket.set_tcp_user_timeout(Some(UNREAD_MAX))?;
        socket.set_tcp_notsent_lowat(UNSENT_MAX)
    }

    /// For a session in a container: its client may stop reading for as long as it likes, as a person does who stops a
    /// terminal. One that vanished is still found, by keep-alives or when the kernel gives up sending.
    pub fn allow_pauses(&self) -> io::Result<()> {
        SockRef::from(self.0.as_ref()).set_tcp_user_timeout(None)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.0.as_ref()).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways_and_a_session_may_pause() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = Socket::new(listener.accept().await.unwrap().0);
        socket.configure().unwrap();
        let timeout = || SockRef::from(socket.0.as_ref()).tcp_user_timeout().unwrap();
        assert_eq!(timeout(), Some(UNREAD_MAX));

        // More than the buffers of both ends hold, so that both wait.
        let sent = vec![7; 8 << 20];
        let mut other = socket.clone();
        let write = async {
            other.write_all(&sent).await.unwrap();
            other.shutdown().await.unwrap();
        };
        let read = async {
            let mut got = Vec::new();
            client.read_to_end(&mut got).await.unwrap();
            client.write_all(b"ok").await.unwrap();
            got
        };
        let ((), got) = tokio::join!(write, read);
        assert_eq!(got, sent);
        let mut answer = [0; 2];
        other.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"ok");

        socket.allow_pauses().unwrap();
        assert_eq!(timeout(), None);
    }
}
