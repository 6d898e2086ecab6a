//! A program in a container, its streams as channels of one WebSocket.

use std::io;
use std::time::Duration;

use bowline_host::containers::Session;
use bowline_host::kernel::KernelError;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use super::frames;
use super::listen::{Input, listen};

pub const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
pub const RESIZE: u8 = 4;
/// The code of a connection that ended as it should.
const NORMAL: u16 = 1000;

pub const CHUNK: usize = 32 << 10;
/// Frames that wait for a slow client, and pieces of input that wait for a slow program.
const BACKLOG: usize = 4;
/// A program has ended, but somebody whom it started keeps its output open: after so long a silence that is no
/// reason to wait.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Somebody who went away without a word is noticed when something is sent to them.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// For the client to close its side after everything has been said.
const GOODBYE: Duration = Duration::from_secs(5);

/// Which outputs the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    pub stdout: bool,
    pub stderr: bool,
}

impl Streams {
    /// Upstream tells the client here, with nothing, that all stands ready.
    pub fn lowest(self) -> u8 {
        match (self.stdout, self.stderr) {
            (true, _) => STDOUT,
            (false, true) => STDERR,
            (false, false) => ERROR,
        }
    }
}

type Output = Box<dyn AsyncRead + Send + Unpin>;
type Frames = mpsc::Sender<Vec<u8>>;

/// Stays with a program until it has ended, or the client has gone, which ends it.
pub async fn serve<S>(started: Result<Session, KernelError>, streams: Streams, socket: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut receiving, sending) = tokio::io::split(socket);
    let (frames, queue) = mpsc::channel(BACKLOG);
    let session = async {
        // A client that has gone is noticed below; it needs neither greeting nor outcome.
        let _ = frames.send(frames::data(streams.lowest(), b"")).await;
        let outcome = match started {
            Ok(session) => converse(session, streams, &mut receiving, &frames).await,
            Err(error) => Some(failure(&format!("error executing command in container: {error}"))),
        };
        if let Some(status) = outcome {
            let _ = frames.send(frames::data(ERROR, status.to_string().as_bytes())).await;
            let _ = frames.send(frames::close(NORMAL)).await;
        }
        drop(frames);
    };
    let ((), sent) = tokio::join!(session, send(sending, queue));
    sent?;
    // To close with input unread would throw away what is still on its way to the client.
    let _ = timeout(GOODBYE, tokio::io::copy(&mut receiving, &mut tokio::io::sink())).await;
    Ok(())
}

async fn send<S: AsyncWrite>(mut socket: WriteHalf<S>, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(frame) = queue.recv().await {
        socket.write_all(&frame).await?;
        socket.flush().await?;
    }
    socket.shutdown().await
}

/// The outcome of the program; `None` when the client has gone first.
async fn converse<S: AsyncRead>(
    session: Session,
    streams: Streams,
    receiving: &mut ReadHalf<S>,
    frames: &Frames,
) -> Option<Value> {
    let Session { stdin, stdout, stderr, terminal, ended } = session;
    let (input, pieces) = mpsc::channel(BACKLOG);
    let (sizes, mut resizes) = mpsc::channel(BACKLOG);
    let resizing = async {
        while let Some((columns, rows)) = resizes.recv().await {
            if let Some(Err(error)) = terminal.as_ref().map(|terminal| terminal.resize(columns, rows)) {
                tracing::debug!(%error, "resize a terminal");
            }
        }
        std::future::pending::<()>().await;
    };
    let feeding = async {
        feed(stdin, pieces).await;
        std::future::pending::<()>().await;
    };
    let shown = |wanted: bool| wanted.then_some(frames);
    let outputs = [(STDOUT, Some(stdout), shown(streams.stdout)), (STDERR, stderr, shown(streams.stderr))];
    tokio::select! {
        biased;
        code = run(outputs, ended) => Some(outcome(code)),
        () = listen(receiving, Input { pieces: input, sizes }, frames) => None,
        () = frames.closed() => None,
        () = heartbeat(frames) => None,
        () = feeding => None,
        () = resizing => None,
    }
}

/// Returns when there is nobody to send anything to.
async fn heartbeat(frames: &Frames) {
    let mut ticks = interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if frames.send(frames::ping()).await.is_err() {
            return;
        }
    }
}

/// Shows what the program writes until it has ended and said everything.
async fn run(
    outputs: [(u8, Option<Output>, Option<&Frames>); 2],
    ended: BoxFuture<'static, io::Result<i32>>,
) -> io::Result<i32> {
    let (over, is_over) = watch::channel(false);
    let [first, second] = outputs.map(|(channel, output, frames)| {
        let is_over = is_over.clone();
        async move {
            if let Some(output) = output {
                show(channel, output, frames, is_over).await;
            }
        }
    });
    let ended = async {
        let code = ended.await;
        over.send_replace(true);
        code
    };
    let (code, (), ()) = tokio::join!(ended, first, second);
    code
}

/// Reads an output to its end, or until it is silent after the end of its program.
async fn show(channel: u8, mut output: Output, frames: Option<&Frames>, mut is_over: watch::Receiver<bool>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let silence = async {
            // An end that cannot be heard of any more has come.
            let _ = is_over.wait_for(|over| *over).await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        let read = tokio::select! {
            biased;
            read = output.read(&mut buffer) => read,
            () = silence => return,
        };
        // An output that cannot be read has ended; a client that has gone is noticed elsewhere.
        let Ok(length @ 1..) = read else { return };
        if let Some(frames) = frames
            && frames.send(frames::data(channel, &buffer[..length])).await.is_err()
        {
            return;
        }
    }
}

/// `None` among the pieces is the end of input.
async fn feed(
    stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    mut pieces: mpsc::Receiver<Option<Vec<u8>>>,
) {
    let mut stdin = stdin;
    while let Some(piece) = pieces.recv().await {
        match (piece, &mut stdin) {
            (Some(piece), Some(pipe)) => {
                // A program that does not want its input may go on without it.
                if pipe.write_all(&piece).await.and(pipe.flush().await).is_err() {
                    stdin = None;
                }
            }
            (None, _) => stdin = None,
            (Some(_), None) => {}
        }
    }
}

/// What the last channel says, in upstream's words.
pub fn outcome(code: io::Result<i32>) -> Value {
    match code {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => failure(&format!("error executing command in container: {error}")),
    }
}

fn failure(why: &str) -> Value {
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    })
}
