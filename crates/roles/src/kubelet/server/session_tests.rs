//! Sessions over a stream in memory, with programs that are no more than their pipes.

use std::time::Duration;

use bowline_host::containers::Session;
use bowline_host::kernel::KernelError;
use futures::FutureExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::session::{Streams, serve};

const BOTH: Streams = Streams { stdout: true, stderr: true };
/// What a pipe of the program, or the way to the client, holds.
const PIPE: usize = 64 << 10;

/// The program's ends of its pipes.
struct Program {
    stdout: DuplexStream,
    stderr: DuplexStream,
    stdin: DuplexStream,
    /// Says how it ended; closed when nobody waits for it.
    end: oneshot::Sender<i32>,
}

fn program() -> (Program, Session) {
    let ((stdout, from_stdout), (stderr, from_stderr), (stdin, to_stdin)) =
        (duplex(PIPE), duplex(PIPE), duplex(PIPE));
    let (end, ended) = oneshot::channel();
    let session = Session {
        stdin: Some(Box::new(to_stdin)),
        stdout: Box::new(from_stdout),
        stderr: Some(Box::new(from_stderr)),
        terminal: None,
        ended: ended.map(|ended| ended.map_err(std::io::Error::other)).boxed(),
    };
    (Program { stdout, stderr, stdin, end }, session)
}

/// The next message of a server: its first byte and the rest.
async fn frame(socket: &mut DuplexStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    socket.read_exact(&mut head).await.unwrap();
    let length = match head[1] {
        126 => u64::from(socket.read_u16().await.unwrap()),
        127 => socket.read_u64().await.unwrap(),
        short => u64::from(short),
    };
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    socket.read_exact(&mut payload).await.unwrap();
    (head[0], payload)
}

/// Everything on one channel each, until the connection is closed.
async fn all(mut socket: DuplexStream) -> [Vec<u8>; 4] {
    let mut channels = [const { Vec::new() }; 4];
    loop {
        match frame(&mut socket).await {
            (0x82, data) => channels[usize::from(data[0])].extend_from_slice(&data[1..]),
            (0x89, _) => {}
            (kind, code) => {
                assert_eq!((kind, code), (0x88, vec![0x03, 0xe8]), "a normal end");
                return channels;
            }
        }
    }
}

fn status(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn streams_and_outcome() {
    let (mut program, session) = program();
    let (mut client, socket) = duplex(PIPE);
    let served = tokio::spawn(serve(Ok(session), BOTH, socket));
    assert_eq!(frame(&mut client).await, (0x82, vec![1]), "all stands ready");
    // A piece of input, and its end.
    client.write_all(b"\x82\x83\0\0\0\0\0in\x82\x82\0\0\0\0\xff\0").await.unwrap();
    let mut heard = String::new();
    program.stdin.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "in");
    program.stdout.write_all(b"out").await.unwrap();
    program.stderr.write_all(b"err").await.unwrap();
    drop((program.stdout, program.stderr));
    program.end.send(3).unwrap();
    let [_, out, err, last] = all(client).await;
    assert_eq!((out.as_slice(), err.as_slice()), (b"out".as_slice(), b"err".as_slice()));
    assert_eq!(status(&last)["details"]["causes"][0]["message"], "3");
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_start() {
    let (client, socket) = duplex(PIPE);
    let failed = KernelError::errno("run `ls` in container `c`", 3);
    let served = tokio::spawn(serve(Err(failed), BOTH, socket));
    let [.., last] = all(client).await;
    let message = status(&last)["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("Internal error occurred: error executing command in container: run `ls`"),
        "{message}"
    );
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_program_ends_with_its_client() {
    let (mut program, session) = program();
    let (mut client, socket) = duplex(PIPE);
    let served = tokio::spawn(serve(Ok(session), BOTH, socket));
    frame(&mut client).await;
    drop(client);
    program.end.closed().await;
    let _ = served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn somebody_who_went_without_a_word_is_noticed() {
    let (mut program, session) = program();
    let (mut client, socket) = duplex(PIPE);
    tokio::spawn(serve(Ok(session), BOTH, socket));
    frame(&mut client).await;
    // The program does not read, so its input piles up, and the end of the connection stands behind it.
    let input = [b"\x82\xfe\xff\xff\0\0\0\0".as_slice(), &[0; 0xffff]].concat();
    let (mut receiving, mut sending) = tokio::io::split(client);
    let flood = async { while sending.write_all(&input).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(1), flood).await.unwrap_err();
    let mut ping = [0; 2];
    receiving.read_exact(&mut ping).await.unwrap();
    assert_eq!(ping, [0x89, 0]);
    drop((receiving, sending));
    program.end.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_holds_the_program_back() {
    const ALL: usize = 4 << 20;
    let (mut program, session) = program();
    let (client, socket) = duplex(PIPE);
    let served = tokio::spawn(serve(Ok(session), BOTH, socket));
    let piece = vec![b'x'; 1 << 10];
    let mut written = 0;
    let filling = async {
        while written < ALL {
            program.stdout.write_all(&piece).await.unwrap();
            written += piece.len();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), filling).await.unwrap_err();
    assert!(written < 1 << 20, "{written} bytes are on their way to nobody");
    // The program ends; what it wrote stays to be read, however late.
    program.end.send(0).unwrap();
    drop((program.stdout, program.stderr));
    sleep(Duration::from_secs(60)).await;
    let [_, out, _, last] = all(client).await;
    assert!(out.len() >= written, "{} of {written}", out.len());
    assert_eq!(status(&last)["status"], "Success");
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_output_that_stays_open_is_not_waited_for() {
    let (program, session) = program();
    let (client, socket) = duplex(PIPE);
    let served = tokio::spawn(serve(Ok(session), BOTH, socket));
    program.end.send(0).unwrap();
    let [.., last] = tokio::time::timeout(Duration::from_secs(20), all(client)).await.unwrap();
    assert_eq!(status(&last)["status"], "Success");
    served.await.unwrap().unwrap();
    drop((program.stdout, program.stderr));
}
