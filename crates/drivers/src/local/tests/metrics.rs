//! What an operator sees: the metrics page, the health check, the spans.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

use super::world::{World, code, config, create, mount};
use crate::doors::Fault;
use crate::local::LocalConfig;

const ADDRESS: &str = "127.0.0.1:9100";

fn measured() -> LocalConfig {
    LocalConfig { metrics: Some(ADDRESS.into()), ..config() }
}

/// One HTTP request to the driver, and all of its answer.
async fn http(world: &World, request: &str) -> String {
    let mut stream = world.machine.connect_tcp(ADDRESS.parse().unwrap()).await.unwrap();
    stream.write_all(format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn count(method: &str, code: &str, number: u32) -> String {
    format!(
        "csi_plugin_operations_seconds_count{{driver_name=\"local.csi.bowline.dev\",grpc_status_code=\"{code}\",\
         method_name=\"/csi.v1.{method}\"}} {number}\n"
    )
}

#[tokio::test(start_paused = true)]
async fn the_page_tells_of_calls_and_pool() {
    let world = World::with(measured()).await;
    world.create("a").await.unwrap();
    world.create("a").await.unwrap();
    world.create_block("b").await.unwrap();
    assert_eq!(code(&world.delete("").await), Code::InvalidArgument);
    assert_eq!(code(&world.attach("nosuch", mount()).await), Code::NotFound);

    let page = http(&world, "GET /metrics").await;
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{page}");
    let space = world.host.disk.space(std::path::Path::new("/var/lib/pool")).await.unwrap();
    let lines = [
        count("Controller/CreateVolume", "OK", 3),
        count("Controller/DeleteVolume", "InvalidArgument", 1),
        count("Controller/ControllerPublishVolume", "NotFound", 1),
        "# TYPE bowline_local_volumes gauge\nbowline_local_volumes 2\n".into(),
        "bowline_local_abnormal_volumes 0\n".into(),
        "bowline_local_snapshots 0\n".into(),
        format!("bowline_local_pool_promised_bytes {}\n", 128 << 20),
        format!("bowline_local_pool_total_bytes {}\n", space.total),
        format!("bowline_local_pool_available_bytes {}\n", space.available),
        // The second at which a fake machine begins.
        "\nprocess_start_time_seconds 1767225600\n".into(),
    ];
    for line in lines {
        assert!(page.contains(&line), "{line} in\n{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_two_pages_and_only_to_read() {
    let world = World::with(measured()).await;
    let table = [
        ("GET /healthz", "HTTP/1.1 200 OK\r\n"),
        ("HEAD /healthz", "HTTP/1.1 200 OK\r\n"),
        ("GET /", "HTTP/1.1 404 Not Found\r\n"),
        ("GET /metrics/x", "HTTP/1.1 404 Not Found\r\n"),
        ("POST /metrics", "HTTP/1.1 405 Method Not Allowed\r\n"),
    ];
    for (request, expected) in table {
        let answer = http(&world, request).await;
        assert!(answer.starts_with(expected), "{request}: {answer}");
    }
    let unmeasured = World::new().await;
    let closed = unmeasured.machine.connect_tcp(ADDRESS.parse().unwrap()).await;
    assert_eq!(closed.map(drop).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused, "off by default");
}

#[tokio::test(start_paused = true)]
async fn an_unwritable_pool_is_unhealthy() {
    let world = World::with(measured()).await;
    world.machine.fail_next("create_file", 30);
    let sick = http(&world, "GET /healthz").await;
    assert!(sick.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{sick}");
    assert!(sick.contains("pool is not usable: Read-only file system"), "{sick}");
    assert!(http(&world, "GET /healthz").await.ends_with("\r\n\r\nok\n"), "as soon as it can be written");
}

/// A connection that says nothing is closed, and others are served meanwhile.
#[tokio::test(start_paused = true)]
async fn silence_is_not_waited_for() {
    let world = World::with(measured()).await;
    let mut silent = world.machine.connect_tcp(ADDRESS.parse().unwrap()).await.unwrap();
    assert!(http(&world, "GET /healthz").await.ends_with("ok\n"));
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(60), silent.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the driver closed it");
}

/// Goal: a call whose caller left counts once, as what came of it.
#[tokio::test(start_paused = true)]
async fn a_call_without_its_caller_is_counted() {
    let world = World::with(measured()).await.restart_with(Fault::Stall(1)).await;
    let left = tokio::time::timeout(Duration::from_secs(7), world.create("a")).await;
    assert!(left.is_err(), "waits for its effect");
    let method = "Controller/CreateVolume";
    assert!(!http(&world, "GET /metrics").await.contains(method), "still running");
    world.faults.resume.notify_one();
    let mut page = http(&world, "GET /metrics").await;
    for _ in 0..100 {
        if page.contains(method) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        page = http(&world, "GET /metrics").await;
    }
    assert!(page.contains(&count(method, "OK", 1)), "{page}");
    assert!(
        page.contains("le=\"5\"} 0\n") && page.contains("le=\"10\"} 1\n"),
        "with its whole duration: {page}"
    );
}

/// A port that is taken keeps the driver from starting, and the reason names it.
#[tokio::test(start_paused = true)]
async fn a_taken_port_is_named() {
    let (host, _machine) = bowline_host::fake::host(7);
    let _other = host.net.listen_tcp(ADDRESS).await.unwrap();
    host.disk.create_dir_all(std::path::Path::new("/var/lib"), 0o755).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let refused = crate::local::run(host, measured(), std::path::Path::new("/var/lib/csi.sock"), stop).await;
    let expected = format!(
        "--metrics-address: listen for metrics on `{ADDRESS}`, which another process has: stop that one or choose another port"
    );
    assert_eq!(refused.unwrap_err().to_string(), expected);
}

/// Everything logged, as text.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// SEC-1: spans name the call and the volume, and nothing that a request hides.
#[tokio::test(start_paused = true)]
async fn spans_name_the_volume_and_no_secret() {
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(captured.clone())
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_max_level(tracing::Level::TRACE)
        .finish();
    // With a single subscriber in the process, tracing asks the thread that first meets a span whether anybody
    // listens, and that may be the thread of another test, which has none. With two it asks the subscribers.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _logging = tracing::subscriber::set_default(subscriber);
    let world = World::with(measured()).await;
    let mut request = create("a", mount());
    request.secrets.insert("key".into(), "s3cret".into());
    request.parameters.insert("csi.storage.k8s.io/pvc/name".into(), "hidden".into());
    world.controller().create_volume(request).await.unwrap();
    world.attach("a", mount()).await.unwrap();
    world.stage("a", super::world::mount_with(&["password=s3cret"])).await.unwrap_err();
    let get = bowline_proto::csi::v1::ControllerGetVolumeRequest { volume_id: "a".into() };
    world.controller().controller_get_volume(get).await.unwrap();

    let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    for span in ["csi.CreateVolume", "csi.ControllerPublishVolume", "csi.ControllerGetVolume"] {
        assert!(text.contains(&format!("{span}{{volume=\"a\"}}")), "{span} in {text}");
    }
    assert!(!text.contains("s3cret") && !text.contains("hidden"), "{text}");
}
