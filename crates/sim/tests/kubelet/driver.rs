//! A CSI driver in memory that checks the order of calls (NODE-1), remembers them, and can lose or refuse answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_api::keys;
use bowline_host::Host;
use bowline_host::net::BoxStream;
use bowline_proto::csi::v1::node_server::{Node, NodeServer};
use bowline_proto::csi::v1::node_service_capability::{Rpc, Type, rpc};
use bowline_proto::csi::v1::*;
use bowline_proto::pluginregistration::registration_server::{Registration, RegistrationServer};
use bowline_proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Code, Request, Response, Status};

pub const NAME: &str = "test.csi.example";

/// What to do with the next call of a kind.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Does nothing and answers with this code.
    Refuse(Code),
    /// Does it and answers with this code.
    Lose(Code),
    /// Does it so much later.
    Delay(Duration),
}

/// As long as the driver takes.
async fn delay(fault: Option<Fault>) {
    if let Some(Fault::Delay(time)) = fault {
        tokio::time::sleep(time).await;
    }
}

#[derive(Default)]
struct State {
    calls: Vec<String>,
    staged: BTreeSet<String>,
    published: BTreeMap<String, BTreeSet<String>>,
    running: BTreeSet<String>,
    faults: BTreeMap<String, VecDeque<Fault>>,
    contexts: Vec<BTreeMap<String, String>>,
    /// Call and `publish_context` of each stage and publish.
    publish_contexts: Vec<(String, BTreeMap<String, String>)>,
    told: Vec<(bool, String)>,
    mount_group: bool,
    groups: Vec<String>,
    expands: bool,
    /// Path and size of each NodeExpandVolume, and how many secrets came with it.
    expanded: Vec<(String, i64, usize)>,
    /// What NodeExpandVolume answers; 0 is legal.
    confirms: i64,
    publishes: Vec<NodePublishVolumeRequest>,
    stats: Option<NodeGetVolumeStatsResponse>,
    volumes_max: Option<i64>,
}

#[derive(Clone)]
pub struct TestDriver {
    host: Host,
    stages: bool,
    state: Arc<Mutex<State>>,
    endpoint: PathBuf,
    versions: Vec<String>,
}

impl TestDriver {
    pub fn new(host: Host, stages: bool, endpoint: &Path) -> Self {
        let versions = vec!["1.0.0".into()];
        Self { host, stages, state: Arc::default(), endpoint: endpoint.into(), versions }
    }

    /// Serves the driver and its registration socket until stopped; then the sockets go.
    pub async fn serve(&self, registration: &Path, stop: CancellationToken, node: CancellationToken) {
        for dir in [self.endpoint.parent().unwrap(), registration.parent().unwrap()] {
            self.host.disk.create_dir_all(dir, 0o750).await.unwrap();
        }
        self.serve_node(node).await;
        let registrar = Server::builder().add_service(RegistrationServer::new(self.clone()));
        self.listen(registrar, registration.into(), stop).await;
    }

    /// Only the driver itself, without its registration socket.
    pub async fn serve_node(&self, stop: CancellationToken) {
        let node = Server::builder().add_service(NodeServer::new(self.clone()));
        self.listen(node, self.endpoint.clone(), stop).await;
    }

    async fn listen(&self, server: tonic::transport::server::Router, path: PathBuf, stop: CancellationToken) {
        let listener = self.host.net.listen(&path).await.unwrap();
        let incoming = futures::stream::unfold(listener, |mut listener| async move {
            let stream = listener.accept().await.ok()?;
            Some((io::Result::Ok(Connection(stream)), listener))
        });
        tokio::spawn(async move {
            let _ = server.serve_with_incoming_shutdown(incoming, stop.cancelled()).await;
        });
    }

    pub fn calls(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.clone()
    }

    pub fn told(&self) -> Vec<(bool, String)> {
        self.state.lock().unwrap().told.clone()
    }

    pub fn contexts(&self) -> Vec<BTreeMap<String, String>> {
        self.state.lock().unwrap().contexts.clone()
    }

    /// Which device each stage and publish was told of.
    pub fn devices(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let device = |context: &BTreeMap<String, String>| context.get("device").cloned().unwrap_or_default();
        state.publish_contexts.iter().map(|(call, context)| format!("{call} {}", device(context))).collect()
    }

    fn note_context(&self, call: &str, context: &BTreeMap<String, String>) {
        self.state.lock().unwrap().publish_contexts.push((call.into(), context.clone()));
    }

    /// The driver has VOLUME_MOUNT_GROUP from now on.
    pub fn set_mount_group(&self) {
        self.state.lock().unwrap().mount_group = true;
    }

    /// The driver has EXPAND_VOLUME from now on.
    pub fn set_expands(&self) {
        self.state.lock().unwrap().expands = true;
    }

    /// What NodePublishVolume was asked for, in order.
    pub fn publishes(&self) -> Vec<NodePublishVolumeRequest> {
        self.state.lock().unwrap().publishes.clone()
    }

    /// The driver has GET_VOLUME_STATS from now on, and answers so.
    pub fn set_stats(&self, answer: NodeGetVolumeStatsResponse) {
        self.state.lock().unwrap().stats = Some(answer);
    }

    /// How many volumes can be attached from now on.
    pub fn set_volumes_max(&self, volumes: i64) {
        self.state.lock().unwrap().volumes_max = Some(volumes);
    }

    /// The driver says from now on that its volumes have so many bytes.
    pub fn set_confirms(&self, bytes: i64) {
        self.state.lock().unwrap().confirms = bytes;
    }

    pub fn expanded(&self) -> Vec<(String, i64, usize)> {
        self.state.lock().unwrap().expanded.clone()
    }

    /// The groups that stage and publish came with.
    pub fn groups(&self) -> Vec<String> {
        self.state.lock().unwrap().groups.clone()
    }

    fn note_group(&self, capability: Option<&VolumeCapability>) {
        use volume_capability::AccessType;
        if let Some(AccessType::Mount(mount)) = capability.and_then(|c| c.access_type.as_ref()) {
            self.state.lock().unwrap().groups.push(mount.volume_mount_group.clone());
        }
    }

    pub fn plan(&self, call: &str, fault: Fault) {
        self.state.lock().unwrap().faults.entry(call.into()).or_default().push_back(fault);
    }

    /// The driver's process died, too.
    pub fn forget_calls_in_flight(&self) {
        self.state.lock().unwrap().running.clear();
    }

    /// Nothing is staged or published.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.staged.is_empty() && state.published.values().all(BTreeSet::is_empty)
    }

    fn begin(&self, call: &str, volume: &str) -> Result<Option<Fault>, Status> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(format!("{call} {volume}"));
        assert!(state.running.insert(volume.into()), "NODE-1: two calls at once for {volume}");
        match state.faults.get_mut(call).and_then(VecDeque::pop_front) {
            Some(Fault::Refuse(code)) => {
                state.running.remove(volume);
                Err(Status::new(code, "as planned"))
            }
            fault => Ok(fault),
        }
    }

    fn end<T>(&self, volume: &str, fault: Option<Fault>, answer: T) -> Result<Response<T>, Status> {
        self.state.lock().unwrap().running.remove(volume);
        match fault {
            Some(Fault::Lose(code)) => Err(Status::new(code, "answer lost as planned")),
            _ => Ok(Response::new(answer)),
        }
    }

    async fn bind(&self, source: &Path, target: &Path) {
        if self.host.kernel.mount_at(target).await.unwrap().is_none() {
            self.host.kernel.bind(source, target, false).await.unwrap();
        }
    }
}

#[tonic::async_trait]
impl Node for TestDriver {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        let fault = self.begin("stage", &request.volume_id)?;
        delay(fault).await;
        self.note_context("stage", &request.publish_context);
        self.note_group(request.volume_capability.as_ref());
        let backing = PathBuf::from("/var/lib/backing").join(&request.volume_id);
        self.host.disk.create_dir_all(&backing, 0o755).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        if !is_block(request.volume_capability.as_ref()) {
            self.bind(&backing, Path::new(&request.staging_target_path)).await;
        }
        self.state.lock().unwrap().staged.insert(request.volume_id.clone());
        self.end(&request.volume_id, fault, NodeStageVolumeResponse {})
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        let fault = self.begin("unstage", &request.volume_id)?;
        delay(fault).await;
        self.host.kernel.unmount(Path::new(&request.staging_target_path)).await.unwrap();
        {
            let mut state = self.state.lock().unwrap();
            let left = state.published.get(&request.volume_id).cloned().unwrap_or_default();
            assert!(left.is_empty(), "NODE-1: unstaged while published at {left:?}");
            state.staged.remove(&request.volume_id);
        }
        self.end(&request.volume_id, fault, NodeUnstageVolumeResponse {})
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let fault = self.begin("publish", &request.volume_id)?;
        delay(fault).await;
        self.note_context("publish", &request.publish_context);
        self.note_group(request.volume_capability.as_ref());
        let target = Path::new(&request.target_path);
        let inline = request.volume_context.get(keys::POD_EPHEMERAL).is_some_and(|value| value == "true");
        self.state.lock().unwrap().publishes.push(request.clone());
        if is_block(request.volume_capability.as_ref()) {
            self.host.disk.create_file(target).await.unwrap();
        } else if inline {
            let backing = PathBuf::from("/var/lib/backing").join(&request.volume_id);
            self.host.disk.create_dir_all(&backing, 0o755).await.unwrap();
            self.host.disk.create_dir_all(target, 0o750).await.unwrap();
            self.bind(&backing, target).await;
        } else {
            self.host.disk.create_dir_all(target, 0o750).await.unwrap();
            self.bind(Path::new(&request.staging_target_path), target).await;
        }
        {
            let mut state = self.state.lock().unwrap();
            let staged = state.staged.contains(&request.volume_id);
            assert!(staged || inline, "NODE-1: published before it was staged");
            state.contexts.push(request.volume_context.clone());
            state.published.entry(request.volume_id.clone()).or_default().insert(request.target_path.clone());
        }
        self.end(&request.volume_id, fault, NodePublishVolumeResponse {})
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let fault = self.begin("unpublish", &request.volume_id)?;
        delay(fault).await;
        let target = Path::new(&request.target_path);
        self.host.kernel.unmount(target).await.unwrap();
        match self.host.disk.kind(target).await.unwrap() {
            Some(bowline_host::disk::Kind::Dir) => self.host.disk.remove_dir(target).await.unwrap(),
            Some(_) => self.host.disk.remove_file(target).await.unwrap(),
            None => {}
        }
        let mut state = self.state.lock().unwrap();
        state.published.entry(request.volume_id.clone()).or_default().remove(&request.target_path);
        drop(state);
        self.end(&request.volume_id, fault, NodeUnpublishVolumeResponse {})
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        let state = self.state.lock().unwrap();
        let published = state.published.get(&request.volume_id);
        assert!(published.is_some_and(|at| at.contains(&request.volume_path)), "asked where it is not");
        state.stats.clone().map(Response::new).ok_or_else(|| Status::unimplemented(""))
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let fault = self.begin("expand", &request.volume_id)?;
        delay(fault).await;
        let capacity_bytes = {
            let mut state = self.state.lock().unwrap();
            let published = state.published.get(&request.volume_id);
            assert!(
                published.is_some_and(|at| at.contains(&request.volume_path)),
                "expanded where it is not"
            );
            let bytes = request.capacity_range.map(|range| range.required_bytes).unwrap_or_default();
            state.expanded.push((request.volume_path.clone(), bytes, request.secrets.len()));
            state.confirms
        };
        self.end(&request.volume_id, fault, NodeExpandVolumeResponse { capacity_bytes })
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let capability = |r#type: rpc::Type| NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: r#type as i32 })),
        };
        let (group, expands, stats) = {
            let state = self.state.lock().unwrap();
            (state.mount_group, state.expands, state.stats.is_some())
        };
        let stages = self.stages.then(|| capability(rpc::Type::StageUnstageVolume));
        let group = group.then(|| capability(rpc::Type::VolumeMountGroup));
        let expands = expands.then(|| capability(rpc::Type::ExpandVolume));
        let stats = stats.then(|| capability(rpc::Type::GetVolumeStats));
        let capabilities = stages.into_iter().chain(group).chain(expands).chain(stats).collect();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let segments = [("topology.test/node".to_owned(), "here".to_owned())].into();
        Ok(Response::new(NodeGetInfoResponse {
            node_id: "node-of-the-driver".into(),
            max_volumes_per_node: self.state.lock().unwrap().volumes_max.unwrap_or(7),
            accessible_topology: Some(Topology { segments }),
        }))
    }
}

#[tonic::async_trait]
impl Registration for TestDriver {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".into(),
            name: NAME.into(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: self.versions.clone(),
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        self.state.lock().unwrap().told.push((status.plugin_registered, status.error));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

fn is_block(capability: Option<&VolumeCapability>) -> bool {
    use volume_capability::AccessType;
    matches!(capability.and_then(|c| c.access_type.as_ref()), Some(AccessType::Block(_)))
}

struct Connection(BoxStream);

impl Connected for Connection {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
