//! Connections to CSI drivers: UNIX sockets, or in-memory streams behind the same door.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::BoxStream;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use bowline_proto::csi::v1::identity_client::IdentityClient;
use bowline_proto::csi::v1::node_client::NodeClient;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::effect::{EffectError, Effects, Fate};

/// Answers above the 4 MiB default are legal (long volume lists).
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A connection to one driver. Reconnects by itself; cheap to clone.
#[derive(Clone)]
pub struct Driver {
    channel: Channel,
    path: PathBuf,
    connections: Arc<Connections>,
}

/// How often the connection was made and lost.
#[derive(Default)]
struct Connections {
    made: AtomicU64,
    lost: AtomicU64,
    again: Notify,
}

impl Connections {
    fn made(&self) {
        if self.made.fetch_add(1, Ordering::SeqCst) > 0 {
            self.again.notify_waiters();
        }
    }
}

/// Which codes leave open whether a call took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classes {
    /// kubelet, attacher, resizer, snapshotter.
    Default,
    /// The provisioner, for which `ResourceExhausted` is final.
    Provisioner,
}

impl Driver {
    /// Prepares a connection; it is made with the first call, and again whenever it is lost.
    pub fn at(host: &Host, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let (net, socket) = (host.net.clone(), path.clone());
        let connections = Arc::<Connections>::default();
        let counted = connections.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let (net, socket, counted) = (net.clone(), socket.clone(), counted.clone());
            async move {
                let stream = net.connect(&socket).await?;
                counted.made();
                Ok::<_, io::Error>(TokioIo::new(Counted { stream, connections: counted }))
            }
        });
        // The authority every gRPC client uses on a UNIX socket.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Self { channel, path, connections }
    }

    /// Waits until the connection was lost and made again: the driver behind it may be another one, with other
    /// capabilities.
    pub async fn reconnected(&self) {
        loop {
            let mut woken = std::pin::pin!(self.connections.again.notified());
            woken.as_mut().enable();
            if self.connections.made.load(Ordering::SeqCst) > 1 {
                return;
            }
            woken.await;
        }
    }

    /// How often the connection was lost: what was asked at another count may have been asked of another process. `None`
    /// before the first connection.
    pub fn losses(&self) -> Option<u64> {
        let connections = &self.connections;
        let lost = connections.lost.load(Ordering::SeqCst);
        (connections.made.load(Ordering::SeqCst) > 0).then_some(lost)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }
    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel())
    }
    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel())
    }
}

/// A stream that tells when it ends.
struct Counted {
    stream: BoxStream,
    connections: Arc<Connections>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.lost.fetch_add(1, Ordering::SeqCst);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Makes one CSI call with a deadline, between failpoints and into the journal, and classifies its end.
pub async fn call<Q, A, F, Fut>(
    effects: &Effects,
    rpc: &'static str,
    object: &str,
    timeout: Duration,
    classes: Classes,
    request: Q,
    send: F,
) -> Result<A, EffectError>
where
    // SEC-1: the messages of `proto` print no secrets.
    Q: Debug,
    A: Debug,
    F: FnOnce(Request<Q>) -> Fut,
    Fut: Future<Output = Result<Response<A>, Status>>,
{
    let sent = async {
        tracing::debug!(target: "csi", rpc, object, ?request, "calling");
        let (begun, mut request) = (Instant::now(), Request::new(request));
        // The server is told the deadline, too; ours ends a little later so that its answer wins.
        request.set_timeout(timeout);
        let answer = tokio::time::timeout(timeout + Duration::from_millis(500), send(request)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
        effects.measure_call(&method(rpc), code, begun.elapsed());
        match answer {
            Ok(response) => {
                let answer = response.into_inner();
                tracing::debug!(target: "csi", rpc, object, took = ?begun.elapsed(), ?answer, "answered");
                Ok(answer)
            }
            Err(status) => {
                let error = classify(&status, classes);
                tracing::debug!(target: "csi", rpc, object, took = ?begun.elapsed(), %error, "failed");
                Err(error)
            }
        }
    };
    effects.run(rpc, object, sent).await
}

/// The full name of an rpc, as metrics know it.
fn method(rpc: &str) -> String {
    let service = match rpc {
        "Probe" | "GetPluginInfo" | "GetPluginCapabilities" => "Identity",
        rpc if rpc.starts_with("Node") => "Node",
        _ => "Controller",
    };
    format!("/csi.v1.{service}/{rpc}")
}

/// Final or open. An error that no driver sent (a broken connection) is open, whatever code tonic gives it.
pub fn classify(status: &Status, classes: Classes) -> EffectError {
    let local = std::error::Error::source(status).is_some();
    let code = match status.code() {
        Code::Unknown | Code::Internal if local => Code::Unavailable,
        Code::Cancelled if local => Code::DeadlineExceeded,
        code => code,
    };
    let open = match code {
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => true,
        Code::ResourceExhausted => classes == Classes::Default,
        _ => false,
    };
    let fate = if open { Fate::Unknown } else { Fate::Refused };
    let message = format!("rpc error: code = {code:?} desc = {}", status.message());
    EffectError { fate, code: code as i32, message }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use bowline_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, Volume};

    use super::*;
    use crate::{Informers, Journal, Metrics};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn effects(metrics: &Metrics) -> Effects {
        let (host, client) = (bowline_host::fake::host(1).0, crate::client::nowhere());
        let informers = Informers::new(client.clone(), host.random.clone(), Default::default());
        Effects::new("test", client, host, Journal::default(), informers).measured(metrics, "d.example")
    }

    /// A request with a secret, answered with one, and refused.
    async fn calls(metrics: &Metrics) {
        let secret = || [("password".to_owned(), "hunter2".to_owned())].into();
        let request =
            || CreateVolumeRequest { name: "pvc-1".into(), secrets: secret(), ..Default::default() };
        let answers = [
            Ok(CreateVolumeResponse {
                volume: Some(Volume {
                    volume_id: "v-1".into(),
                    volume_context: secret(),
                    ..Default::default()
                }),
            }),
            Err(Status::internal("no room")),
        ];
        for answer in answers {
            let send = |_| async { answer.map(Response::new) };
            let (timeout, classes) = (Duration::from_secs(1), Classes::Provisioner);
            let _ = call(&effects(metrics), "CreateVolume", "claim", timeout, classes, request(), send).await;
        }
    }

    #[tokio::test]
    async fn calls_are_measured_under_upstreams_names() {
        let metrics = Metrics::new(jiff::Timestamp::UNIX_EPOCH);
        calls(&metrics).await;
        let text = metrics.text();
        for code in ["OK", "Internal"] {
            let line = format!(
                "csi_sidecar_operations_seconds_count{{driver_name=\"d.example\",grpc_status_code=\"{code}\",method_name=\"/csi.v1.Controller/CreateVolume\"}} 1\n"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
        effects(&metrics).measured_on_node(&metrics, "n.example").measure_call(
            &method("NodeStageVolume"),
            Code::Ok,
            Duration::ZERO,
        );
        let line = "csi_operations_seconds_count{driver_name=\"n.example\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Node/NodeStageVolume\",migrated=\"false\"} 1\n";
        assert!(metrics.text().contains(line), "{line} in {}", metrics.text());
        let methods = ["Probe", "NodeStageVolume", "DeleteVolume"].map(method);
        assert_eq!(
            methods,
            ["/csi.v1.Identity/Probe", "/csi.v1.Node/NodeStageVolume", "/csi.v1.Controller/DeleteVolume"]
        );
    }

    #[tokio::test]
    async fn calls_are_logged_without_secrets() {
        let lines = Lines::default();
        let made = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || made.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        calls(&Metrics::new(jiff::Timestamp::UNIX_EPOCH)).await;
        drop(guard);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        for part in ["csi: calling", "pvc-1", "csi: answered", "v-1", "csi: failed", "no room"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("hunter2"), "SEC-1: {text}");
    }

    #[test]
    fn which_codes_leave_the_outcome_open() {
        let table = [
            (Code::Aborted, Fate::Unknown, Fate::Unknown),
            (Code::DeadlineExceeded, Fate::Unknown, Fate::Unknown),
            (Code::Cancelled, Fate::Unknown, Fate::Unknown),
            (Code::Unavailable, Fate::Unknown, Fate::Unknown),
            (Code::ResourceExhausted, Fate::Unknown, Fate::Refused),
            (Code::InvalidArgument, Fate::Refused, Fate::Refused),
            (Code::Internal, Fate::Refused, Fate::Refused),
            (Code::Unknown, Fate::Refused, Fate::Refused),
        ];
        for (code, default, provisioner) in table {
            let status = Status::new(code, "x");
            assert_eq!(classify(&status, Classes::Default).fate, default, "{code:?}");
            assert_eq!(classify(&status, Classes::Provisioner).fate, provisioner, "{code:?}");
        }
    }

    #[test]
    fn a_broken_connection_is_open_whatever_its_code() {
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let status = Status::from_error(Box::new(broken));
        assert_eq!(classify(&status, Classes::Provisioner).fate, Fate::Unknown);
    }
}
