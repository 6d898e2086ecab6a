//! Probes of a driver on a fake machine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bowline_host::{Host, fake};
use bowline_machinery::incoming::accepted;
use bowline_machinery::{Effects, Journal, Ports, client};
use bowline_proto::csi::v1::identity_server::{Identity, IdentityServer};
use bowline_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    ProbeRequest, ProbeResponse,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};

use super::{NAME, name, probe};

const SOCKET: &str = "/csi/csi.sock";
const PATIENCE: Duration = Duration::from_secs(3);

/// How a driver answers Probe.
#[derive(Clone, Copy)]
enum Manner {
    Ready(Option<bool>),
    Fails(Code),
    Silent,
}

struct Driver {
    manner: Manner,
    probes: Arc<AtomicU32>,
}

#[async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse { name: "d.example".into(), ..Default::default() }))
    }
    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        match self.manner {
            Manner::Ready(ready) => Ok(Response::new(ProbeResponse { ready })),
            Manner::Fails(code) => Err(Status::new(code, "no pool")),
            Manner::Silent => std::future::pending().await,
        }
    }
}

fn machine() -> (Host, Effects) {
    let (host, _) = fake::host(1);
    let ports = Ports::new(client::nowhere(), host.clone(), Journal::default(), CancellationToken::new());
    (host, ports.questions(NAME).measured(&ports.metrics, "d.example"))
}

async fn driver(host: &Host, manner: Manner) -> (JoinHandle<()>, Arc<AtomicU32>) {
    host.disk.create_dir_all(Path::new("/csi"), 0o755).await.unwrap();
    let listener = host.net.listen(Path::new(SOCKET)).await.unwrap();
    let probes = Arc::<AtomicU32>::default();
    let service = IdentityServer::new(Driver { manner, probes: probes.clone() });
    let serving = Server::builder().add_service(service).serve_with_incoming(accepted(listener));
    (tokio::spawn(async move { serving.await.unwrap() }), probes)
}

async fn asked(manner: Manner) -> Result<(), String> {
    let (host, effects) = machine();
    let _driver = driver(&host, manner).await;
    probe(&host, Path::new(SOCKET), &effects, PATIENCE).await
}

#[tokio::test(start_paused = true)]
async fn health_is_what_the_driver_answers() {
    assert_eq!(asked(Manner::Ready(Some(true))).await, Ok(()));
    assert_eq!(asked(Manner::Ready(None)).await, Ok(()), "a driver that does not say is ready");
    let not_ready = Err("driver responded but is not ready".to_owned());
    assert_eq!(asked(Manner::Ready(Some(false))).await, not_ready);
    let failed = asked(Manner::Fails(Code::FailedPrecondition)).await.unwrap_err();
    assert!(failed.contains("no pool"), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn edge_6_1_a_removed_socket_is_unhealthy_although_the_driver_still_runs() {
    let (host, effects) = machine();
    let (_driver, _) = driver(&host, Manner::Ready(None)).await;
    assert_eq!(probe(&host, Path::new(SOCKET), &effects, PATIENCE).await, Ok(()));
    host.disk.remove_file(Path::new(SOCKET)).await.unwrap();
    assert!(probe(&host, Path::new(SOCKET), &effects, PATIENCE).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn edge_6_2_a_driver_that_never_answers_is_unhealthy_within_the_timeout() {
    let (host, effects) = machine();
    let (_driver, _) = driver(&host, Manner::Silent).await;
    let begun = tokio::time::Instant::now();
    let why = probe(&host, Path::new(SOCKET), &effects, PATIENCE).await.unwrap_err();
    assert!(begun.elapsed() <= PATIENCE + Duration::from_millis(10), "{:?}", begun.elapsed());
    assert!(why.contains("DeadlineExceeded") || why.contains(SOCKET), "{why}");
}

#[tokio::test(start_paused = true)]
async fn edge_6_3_probes_at_once_are_independent() {
    let (host, effects) = machine();
    let (_driver, probes) = driver(&host, Manner::Silent).await;
    let one = || probe(&host, Path::new(SOCKET), &effects, PATIENCE);
    let begun = tokio::time::Instant::now();
    let (first, second) = tokio::join!(one(), one());
    assert!(first.is_err() && second.is_err());
    assert!(begun.elapsed() < 2 * PATIENCE, "the second did not wait for the first");
    assert_eq!(probes.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_comes_up_late_is_waited_for() {
    let (host, effects) = machine();
    let late = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        driver(&host, Manner::Ready(None)).await
    };
    let (name, _driver) = tokio::join!(name(&host, Path::new(SOCKET), &effects), late);
    assert_eq!(name.unwrap(), "d.example");
}
