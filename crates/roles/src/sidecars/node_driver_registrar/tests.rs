//! The kubelet's side of the conversation, on a fake machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_host::fake;
use bowline_machinery::csi::Driver;
use bowline_machinery::incoming::accepted;
use bowline_machinery::{Journal, Ports, RunError, client};
use bowline_proto::csi::v1::identity_server::{Identity, IdentityServer};
use bowline_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    ProbeRequest, ProbeResponse,
};
use bowline_proto::pluginregistration::registration_client::RegistrationClient;
use bowline_proto::pluginregistration::{InfoRequest, RegistrationStatus};
use futures::future::Ready;
use http::{Request, Response};
use kube::client::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::{Channel, Server};

use super::run;

const SOCKET: &str = "/csi/csi.sock";
const REGISTRATION: &str = "/registry/d.example-reg.sock";

/// A driver that knows its name.
struct Named;

#[async_trait]
impl Identity for Named {
    async fn get_plugin_info(
        &self,
        _: tonic::Request<GetPluginInfoRequest>,
    ) -> Result<tonic::Response<GetPluginInfoResponse>, Status> {
        let name = "d.example".into();
        Ok(tonic::Response::new(GetPluginInfoResponse { name, ..Default::default() }))
    }
    async fn get_plugin_capabilities(
        &self,
        _: tonic::Request<GetPluginCapabilitiesRequest>,
    ) -> Result<tonic::Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(tonic::Response::new(Default::default()))
    }
    async fn probe(&self, _: tonic::Request<ProbeRequest>) -> Result<tonic::Response<ProbeResponse>, Status> {
        Ok(tonic::Response::new(Default::default()))
    }
}

struct World {
    ports: Ports,
    role: JoinHandle<Result<(), RunError>>,
}

/// A registrar that is started on a machine without a driver.
fn registrar(timeout: &str) -> World {
    let (host, _) = fake::host(1);
    let no_server = tower::service_fn(|_: Request<Body>| -> Ready<Result<Response<Body>, std::io::Error>> {
        futures::future::ready(Err(std::io::ErrorKind::NotConnected.into()))
    });
    let stop = CancellationToken::new();
    let ports = Ports::new(client::in_process(no_server), host, Journal::default(), stop);
    let flags = ["--csi-address", SOCKET, "--kubelet-registration-path", "/k/csi.sock"];
    let flags = [&flags[..], &["--plugin-registration-path", "/registry", "--timeout", timeout]].concat();
    let role = tokio::spawn(run(ports.clone(), crate::flags(&flags).unwrap(), Arc::default()));
    World { ports, role }
}

/// A registrar, and a driver that comes up later.
async fn world() -> World {
    let world = registrar("1s");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let host = &world.ports.host;
    host.disk.create_dir_all(Path::new("/csi"), 0o755).await.unwrap();
    let listener = host.net.listen(Path::new(SOCKET)).await.unwrap();
    let driver = Server::builder().add_service(IdentityServer::new(Named));
    tokio::spawn(driver.serve_with_incoming(accepted(listener)));
    world
}

impl World {
    async fn kubelet(&self) -> RegistrationClient<Channel> {
        let mut sockets = self.ports.host.net.watch_dir(Path::new("/registry")).await.unwrap();
        sockets.recv().await.unwrap();
        RegistrationClient::new(Driver::at(&self.ports.host, REGISTRATION).channel())
    }

    async fn socket_is_there(&self) -> bool {
        self.ports.host.net.connect(Path::new(REGISTRATION)).await.is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn introduces_the_driver_and_leaves_with_the_socket() {
    let world = world().await;
    let mut kubelet = world.kubelet().await;
    let info = kubelet.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("CSIPlugin", "d.example"));
    assert_eq!((info.endpoint.as_str(), info.supported_versions), ("/k/csi.sock", vec!["1.0.0".to_owned()]));
    let registered = RegistrationStatus { plugin_registered: true, error: String::new() };
    kubelet.notify_registration_status(registered).await.unwrap();
    assert!(world.socket_is_there().await);

    world.ports.stop.cancel();
    let World { ports, role } = world;
    tokio::time::timeout(Duration::from_secs(10), role).await.unwrap().unwrap().unwrap();
    assert!(ports.host.net.connect(Path::new(REGISTRATION)).await.is_err(), "the socket is gone");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_role() {
    let world = world().await;
    let refused = RegistrationStatus { plugin_registered: false, error: "no such version".into() };
    world.kubelet().await.notify_registration_status(refused).await.unwrap();
    let error =
        tokio::time::timeout(Duration::from_secs(10), world.role).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the kubelet refused driver d.example: no such version");
}

/// Upstream's waits for the socket for as long, whatever `--timeout` says about each call.
#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_come_is_an_error_after_thirty_seconds() {
    for timeout in ["100ms", "1s", "15s"] {
        let begun = tokio::time::Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(3600), registrar(timeout).role).await;
        let error = ended.unwrap().unwrap().unwrap_err();
        let waited = begun.elapsed().as_secs();
        assert!((30..32).contains(&waited), "--timeout={timeout}: {waited}s");
        assert!(
            matches!(&error, RunError::Effect { source, .. } if source.message.contains(SOCKET)),
            "{error:?}"
        );
    }
}

/// C10: a person, or a clean-up script, removed it.
#[tokio::test(start_paused = true)]
async fn a_removed_socket_is_made_again() {
    let world = world().await;
    world.kubelet().await.get_info(InfoRequest {}).await.unwrap();
    for _ in 0..2 {
        world.ports.host.disk.remove_file(Path::new(REGISTRATION)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(world.socket_is_there().await, "made again");
        let info = world.kubelet().await.get_info(InfoRequest {}).await.unwrap().into_inner();
        assert_eq!(info.name, "d.example");
    }
}

/// Upstream's kubelet names the socket's path as the host, percent-encoded, which our HTTP/2 library refuses.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_sends_the_sockets_path_as_host_is_answered() {
    let world = world().await;
    drop(world.kubelet().await);
    let mut stream = world.ports.host.net.connect(Path::new(REGISTRATION)).await.unwrap();
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let fields = [
        vec![0x83, 0x86, 0x44],
        text("/pluginregistration.Registration/GetInfo"),
        vec![0x41],
        text("%2Fregistry%2Fd.example-reg.sock"),
        vec![0x5f],
        text("application/grpc"),
        vec![0x40],
        text("te"),
        text("trailers"),
    ];
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let request = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &fields.concat()),
        frame(0, 1, 1, &[0; 5]),
    ];
    stream.write_all(&request.concat()).await.unwrap();
    let mut answer = Vec::new();
    let answered = async {
        while !answer.windows(9).any(|bytes| bytes == b"d.example") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{answer:?}");
        }
    };
    let answered = tokio::time::timeout(Duration::from_secs(10), answered).await;
    assert!(answered.is_ok(), "{answer:?}");
}
