//! `/exec/…`: a program in a container, its streams as channels of one WebSocket.

use std::io;
use std::time::Duration;

use bowline_host::containers::{ExecSpec, Session};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::frames::{self, Decoder, Message};
use super::query::Query;
use super::{Body, Node, Target, text, websocket};
use crate::pods::host_id;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Says that the channel named in its one byte has ended.
const CLOSE: u8 = 255;
/// The code of a connection that ended as it should.
const NORMAL: u16 = 1000;

const CHUNK: usize = 32 << 10;
/// Frames that wait for a slow client, and pieces of input that wait for a slow program.
const BACKLOG: usize = 4;
/// A program has ended, but somebody whom it started keeps its output open: no longer than this.
const LAST_WORDS: Duration = Duration::from_secs(5);

type Socket = TokioIo<Upgraded>;

pub async fn answer(node: Node, target: Target, mut request: Request<Incoming>) -> Response<Body> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let spec = ExecSpec {
        argv: query.all("command").map(str::to_owned).collect(),
        stdin: query.flag("input"),
        tty: query.flag("tty"),
    };
    let Target { namespace, pod: name, container } = &target;
    let Some(pod) = node.pods.pod(namespace, name) else {
        return text(StatusCode::NOT_FOUND, "pod does not exist\n");
    };
    let status = node.pods.status(&pod, container);
    let running = status.filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    let id = running.and_then(|status| status.container_id).and_then(|id| host_id(&id).map(str::to_owned));
    let Some(id) = id else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("container not found ({container:?})\n"));
    };
    let response = match websocket::accept(request.headers()) {
        Ok(response) => response,
        Err(why) => return text(StatusCode::BAD_REQUEST, why),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let stop = node.ports.stop.clone();
    tokio::spawn(async move {
        let serve = async {
            match upgrade.await {
                Ok(upgraded) => serve(&node, &id, &spec, TokioIo::new(upgraded)).await,
                Err(error) => Err(io::Error::other(error)),
            }
        };
        let served = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            served = serve => served,
        };
        if let Err(error) = served {
            tracing::debug!(container = id, %error, "session ended");
        }
    });
    response
}

/// Runs the program until it has ended, or the client has gone, which ends it.
async fn serve(node: &Node, id: &str, spec: &ExecSpec, socket: Socket) -> io::Result<()> {
    let (receiving, sending) = tokio::io::split(socket);
    let (frames, queue) = mpsc::channel(BACKLOG);
    let writer = send(sending, queue);
    let session = async {
        let outcome = match node.ports.host.containers.exec(id, spec).await {
            Ok(session) => converse(session, receiving, &frames).await,
            Err(error) => Some(failure(&format!("error executing command in container: {error}"))),
        };
        if let Some(status) = outcome {
            // A client that has gone needs no outcome.
            let _ = frames.send(frames::data(ERROR, status.to_string().as_bytes())).await;
            let _ = frames.send(frames::close(NORMAL)).await;
        }
        drop(frames);
    };
    let ((), sent) = tokio::join!(session, writer);
    sent
}

async fn send(mut socket: WriteHalf<Socket>, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(frame) = queue.recv().await {
        socket.write_all(&frame).await?;
        socket.flush().await?;
    }
    socket.shutdown().await
}

/// The outcome of the program; `None` when the client has gone first.
async fn converse(
    session: Session,
    receiving: ReadHalf<Socket>,
    frames: &mpsc::Sender<Vec<u8>>,
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
    let listening = listen(receiving, input, sizes, frames);
    let feeding = async {
        feed(stdin, pieces).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        code = run(stdout, stderr, ended, frames) => Some(outcome(code)),
        () = listening => None,
        () = feeding => None,
        () = resizing => None,
    }
}

/// Shows what the program writes until it has ended and said everything.
async fn run(
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    ended: BoxFuture<'static, io::Result<i32>>,
    frames: &mpsc::Sender<Vec<u8>>,
) -> io::Result<i32> {
    let showing = async {
        tokio::join!(show(STDOUT, Some(stdout), frames), show(STDERR, stderr, frames));
    };
    tokio::pin!(showing);
    let mut ended = ended;
    let (code, said) = tokio::select! {
        () = &mut showing => (ended.await, true),
        code = &mut ended => (code, false),
    };
    if !said {
        let _ = tokio::time::timeout(LAST_WORDS, showing).await;
    }
    code
}

async fn show(
    channel: u8,
    output: Option<Box<dyn AsyncRead + Send + Unpin>>,
    frames: &mpsc::Sender<Vec<u8>>,
) {
    let Some(mut output) = output else { return };
    let mut buffer = vec![0; CHUNK];
    // An output that cannot be read has ended; a client that has gone is noticed elsewhere.
    while let Ok(length @ 1..) = output.read(&mut buffer).await {
        if frames.send(frames::data(channel, &buffer[..length])).await.is_err() {
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

/// Takes in what the client sends until it closes the connection or breaks the rules.
async fn listen(
    mut socket: ReadHalf<Socket>,
    input: mpsc::Sender<Option<Vec<u8>>>,
    sizes: mpsc::Sender<(u16, u16)>,
    frames: &mpsc::Sender<Vec<u8>>,
) {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = socket.read(&mut buffer).await {
        decoder.feed(&buffer[..length]);
        loop {
            let message = match decoder.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(violation) => {
                    let _ = frames.send(frames::close(violation.code())).await;
                    return;
                }
            };
            match message {
                Message::Close => return,
                Message::Ping(payload) => {
                    let _ = frames.send(frames::pong(&payload)).await;
                }
                Message::Data(data) => match data.split_first() {
                    Some((&STDIN, piece)) => drop(input.send(Some(piece.to_vec())).await),
                    Some((&CLOSE, [STDIN])) => drop(input.send(None).await),
                    Some((&RESIZE, size)) => {
                        if let Some(size) = terminal_size(size) {
                            let _ = sizes.send(size).await;
                        }
                    }
                    _ => {}
                },
            }
        }
    }
}

/// `{"Width":80,"Height":24}`
pub fn terminal_size(text: &[u8]) -> Option<(u16, u16)> {
    let size: Value = serde_json::from_slice(text).ok()?;
    let side = |name: &str| u16::try_from(size[name].as_u64()?).ok();
    Some((side("Width")?, side("Height")?))
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
