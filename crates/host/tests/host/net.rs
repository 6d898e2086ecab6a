//! Sockets and directory watches, one suite for both doors.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bowline_host::net::{BoxStream, DirEvent};
use bowline_host::{Host, fake};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::world::World;

#[tokio::test]
async fn real_net() {
    let world = World::new();
    suite(&world.host, &world.dir("net")).await;
    let path = world.path("net/mode.sock");
    let _listener = world.host.net.listen(&path).await.unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let connect = async |address| Ok(Box::new(tokio::net::TcpStream::connect(address).await?) as BoxStream);
    tcp(&world.host, connect).await;
}

#[tokio::test(start_paused = true)]
async fn fake_net() {
    let (host, fake) = fake::host(1);
    let dir = Path::new("/var/lib/net");
    host.disk.create_dir_all(dir, 0o755).await.unwrap();
    suite(&host, dir).await;
    tcp(&host, async |address| fake.connect_tcp(address).await).await;
}

async fn suite(host: &Host, dir: &Path) {
    streams(host, &dir.join("a.sock")).await;
    stale_and_live(host, dir).await;
    watch(host, &dir.join("watched/registry")).await;
}

async fn streams(host: &Host, path: &Path) {
    assert_eq!(host.net.connect(path).await.map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    let mut listener = host.net.listen(path).await.unwrap();
    let client = async {
        let mut stream = host.net.connect(path).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let server = async {
        let mut stream = listener.accept().await.unwrap();
        let mut question = [0; 5];
        stream.read_exact(&mut question).await.unwrap();
        stream.write_all(&question).await.unwrap();
        stream.write_all(b"!").await.unwrap();
    };
    assert_eq!(tokio::join!(client, server).0, "hello!");
}

async fn tcp(host: &Host, connect: impl AsyncFn(SocketAddr) -> io::Result<BoxStream>) {
    let (address, mut listener) = host.net.listen_tcp("127.0.0.1:0").await.unwrap();
    let (other, _second) = host.net.listen_tcp("127.0.0.1:0").await.unwrap();
    assert!(address.port() != 0 && address != other, "any free port is a port of one's own");
    let taken = host.net.listen_tcp(&address.to_string()).await.map(drop).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    let nonsense = host.net.listen_tcp("nonsense").await.map(drop).unwrap_err();
    assert_eq!(nonsense.kind(), ErrorKind::InvalidInput);

    let mut client = connect(address).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    let mut received = [0; 5];
    listener.accept().await.unwrap().read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"hello");
    drop(listener);
    assert_eq!(first_failure(async || connect(address).await).await, ErrorKind::ConnectionRefused);
}

/// How connecting fails once nothing listens. Children that other tests fork have our closed listeners open until they
/// execute their program, so a connection may still succeed for a moment.
async fn first_failure(connect: impl AsyncFn() -> io::Result<BoxStream>) -> ErrorKind {
    let failure = async {
        loop {
            match connect().await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(error) => return error.kind(),
            }
        }
    };
    timeout(Duration::from_secs(60), failure).await.unwrap()
}

async fn stale_and_live(host: &Host, dir: &Path) {
    let path = dir.join("b.sock");
    let first = host.net.listen(&path).await.unwrap();
    let refused = host.net.listen(&path).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AddrInUse, "a live socket is left alone");
    drop(first);
    assert_eq!(first_failure(async || host.net.connect(&path).await).await, ErrorKind::ConnectionRefused);
    let _second = host.net.listen(&path).await.unwrap();
    host.net.connect(&path).await.unwrap();
    let file = dir.join("file");
    host.disk.create_file(&file).await.unwrap();
    assert_eq!(host.net.listen(&file).await.map(drop).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert!(host.disk.kind(&file).await.unwrap().is_some(), "what is no socket is never removed");
}

async fn next(events: &mut Receiver<DirEvent>) -> DirEvent {
    timeout(Duration::from_secs(60), events.recv()).await.unwrap().unwrap()
}

async fn watch(host: &Host, dir: &Path) {
    host.disk.create_dir_all(&dir.join("sub"), 0o755).await.unwrap();
    let path = |name: &str| dir.join(name);
    let _existing = host.net.listen(&path("existing.sock")).await.unwrap();
    let _deep = host.net.listen(&path("sub/deep.sock")).await.unwrap();
    let mut events = host.net.watch_dir(dir).await.unwrap();
    assert_eq!(next(&mut events).await, DirEvent::Created(path("existing.sock")));
    assert_eq!(next(&mut events).await, DirEvent::Created(path("sub/deep.sock")));

    host.disk.create_file(&path("file")).await.unwrap();
    let _hidden = host.net.listen(&path(".hidden.sock")).await.unwrap();
    let new = host.net.listen(&path("new.sock")).await.unwrap();
    assert_eq!(next(&mut events).await, DirEvent::Created(path("new.sock")));

    host.disk.create_dir_all(&path("later/below"), 0o755).await.unwrap();
    let _below = host.net.listen(&path("later/below/c.sock")).await.unwrap();
    assert_eq!(next(&mut events).await, DirEvent::Created(path("later/below/c.sock")));

    host.disk.remove_file(&path("existing.sock")).await.unwrap();
    assert_eq!(next(&mut events).await, DirEvent::Removed(path("existing.sock")));

    // A restarted plugin: its stale socket goes, a new one comes.
    drop(new);
    let _new = host.net.listen(&path("new.sock")).await.unwrap();
    assert_eq!(next(&mut events).await, DirEvent::Removed(path("new.sock")));
    assert_eq!(next(&mut events).await, DirEvent::Created(path("new.sock")));
    assert!(events.try_recv().is_err(), "nothing else was reported");
}

#[tokio::test]
async fn a_watch_creates_its_directory() {
    let world = World::new();
    let dir = world.path("not/yet");
    let mut events = world.host.net.watch_dir(&dir).await.unwrap();
    let _listener = world.host.net.listen(&dir.join("a.sock")).await.unwrap();
    assert_eq!(next(&mut events).await, DirEvent::Created(dir.join("a.sock")));
}
