//! One node, one API server, one driver.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_api::{CSINode, ConfigMap, Event, Node, Pod, ServiceAccount, keys, pod};
use bowline_apiserver::Server;
use bowline_apiserver::auth::User;
use bowline_host::containers::State;
use bowline_host::fake::FakeHost;
use bowline_host::{Clock, Host};
use bowline_machinery::client::{Client, in_process};
use bowline_machinery::{Effects, Journal, Metrics, Ports};
use bowline_roles::crew::Crew;
use bowline_roles::kubelet::{Kubelet, KubeletConfig, run_kubelet};
use bowline_sim::stage::Stage;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::driver::TestDriver;
use super::objects::NODE;

pub const KUBELET_DIR: &str = "/var/lib/kubelet";

pub struct World {
    pub fake: Arc<FakeHost>,
    pub host: Host,
    pub server: Server,
    /// The wall clock of the node; the API server has its own.
    pub clock: Arc<NodeClock>,
    pub driver: TestDriver,
    /// What the API server refused the kubelet, as `METHOD path`.
    pub refused: Arc<Mutex<Vec<String>>>,
    pub ports: Ports,
    pub kubelet: Option<Kubelet>,
    /// What the kubelet counts.
    pub metrics: Metrics,
    crew: Crew,
    serving: CancellationToken,
    serving_node: CancellationToken,
}

/// A wall clock that can be wrong.
pub struct NodeClock {
    right: Arc<FakeHost>,
    ahead: AtomicI64,
}

impl NodeClock {
    /// Sets it that many seconds ahead of the right time.
    pub fn set_ahead(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.right.now() + SignedDuration::from_secs(self.ahead.load(Ordering::SeqCst))
    }
}

impl World {
    /// A kubelet, a driver, and a claim `data` that is bound.
    pub async fn with_claim(seed: u64) -> Self {
        let mut world = Self::new(seed).await;
        world.start_kubelet().await;
        world.start_driver().await;
        world.csi_driver(false).await;
        world.bound_claim("data", false, "ReadWriteOnce").await;
        world
    }

    pub async fn new(seed: u64) -> Self {
        // RUST_LOG=debug shows every decision and effect of a failing test.
        let logs =
            tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env());
        let _ = logs.with_test_writer().try_init();
        let Stage { server, host, machine: fake, .. } = Stage::with_tokens(seed).await;
        let clock = Arc::new(NodeClock { right: fake.clone(), ahead: AtomicI64::new(0) });
        let host = Host { clock: clock.clone(), ..host };
        let driver = TestDriver::new(host.clone(), true, Path::new("/var/lib/kubelet/plugins/test/csi.sock"));
        let ports = process(&server, &host).await;
        what_controllers_make(&ports.effects("test")).await;
        Self {
            fake,
            host,
            server,
            clock,
            driver,
            refused: Arc::default(),
            kubelet: None,
            metrics: ports.metrics.clone(),
            ports,
            crew: Crew::default(),
            serving: CancellationToken::new(),
            serving_node: CancellationToken::new(),
        }
    }

    pub async fn start_kubelet(&mut self) {
        self.ports = process(&self.server, &self.host).await;
        let (journal, stop) = (self.ports.journal.clone(), self.ports.stop.clone());
        let ports = Ports::new(as_node(&self.server, &self.refused), self.host.clone(), journal, stop);
        self.metrics = ports.metrics.clone();
        let config = KubeletConfig::new(NODE, KUBELET_DIR);
        self.kubelet = Some(run_kubelet(ports, config, &self.crew).await.unwrap());
    }

    /// A kubelet with its own way to the API server.
    pub async fn start_kubelet_with(&mut self, client: Client) {
        let stop = CancellationToken::new();
        self.ports = looking(Ports::new(client, self.host.clone(), Journal::default(), stop)).await;
        let config = KubeletConfig::new(NODE, KUBELET_DIR);
        self.kubelet = Some(run_kubelet(self.ports.clone(), config, &self.crew).await.unwrap());
    }

    /// As at Ctrl-C; false when time ran out.
    pub async fn drain(&self) -> bool {
        self.kubelet.as_ref().unwrap().drain(Duration::from_secs(30)).await
    }

    /// The process ends without leaving the machine clean.
    pub async fn stop_kubelet(&mut self) {
        self.ports.stop.cancel();
        self.kubelet.take().unwrap();
        self.crew.finished().await.unwrap();
        self.crew = Crew::default();
    }

    pub async fn start_driver(&mut self) {
        self.serving = CancellationToken::new();
        let socket = Path::new(KUBELET_DIR).join("plugins_registry/test-reg.sock");
        self.serving_node = self.serving.child_token();
        self.driver.serve(&socket, self.serving.clone(), self.serving_node.clone()).await;
    }

    pub async fn stop_driver(&mut self) {
        self.serving.cancel();
        for socket in ["plugins_registry/test-reg.sock", "plugins/test/csi.sock"] {
            self.host.disk.remove_file(&Path::new(KUBELET_DIR).join(socket)).await.unwrap();
        }
    }

    /// The driver's process is replaced by another version behind the same socket; its registrar lives on.
    pub async fn replace_driver(&mut self, change: impl Fn(&TestDriver)) {
        self.serving_node.cancel();
        self.host.disk.remove_file(&Path::new(KUBELET_DIR).join("plugins/test/csi.sock")).await.unwrap();
        change(&self.driver);
        self.serving_node = CancellationToken::new();
        self.driver.serve_node(self.serving_node.clone()).await;
    }

    /// Somebody else's connection to the API server.
    pub async fn fresh_ports(&self) -> Ports {
        process(&self.server, &self.host).await
    }

    pub fn effects(&self) -> Effects {
        self.ports.effects("test")
    }

    pub fn node(&self) -> Option<Node> {
        self.ports.informers.of::<Node>().named(NODE).map(|n| (*n).clone())
    }

    pub fn phase(&self, name: &str) -> String {
        let key = bowline_api::ObjectKey::new("default", name);
        let pod = self.ports.informers.of::<Pod>().get(&key);
        pod.map(|p| pod::phase(&p).to_owned()).unwrap_or_else(|| "gone".into())
    }

    pub fn live_pod(&self, name: &str) -> Pod {
        let key = bowline_api::ObjectKey::new("default", name);
        (*self.ports.informers.of::<Pod>().get(&key).unwrap()).clone()
    }

    pub fn events(&self, reason: &str) -> Vec<String> {
        let events = self.ports.informers.of::<Event>().list();
        let of = events.iter().filter(|e| e.reason.as_deref() == Some(reason));
        of.filter_map(|e| e.message.clone()).collect()
    }

    /// How often an event with this end was told.
    pub fn event_count(&self, reason: &str, end: &str) -> i32 {
        let events = self.ports.informers.of::<Event>().list();
        let of = events.iter().filter(|e| e.reason.as_deref() == Some(reason));
        let of = of.filter(|e| e.message.as_deref().is_some_and(|text| text.ends_with(end)));
        of.filter_map(|e| e.count).sum()
    }

    pub fn running(&self) -> Vec<String> {
        let all = self.fake.containers();
        all.into_iter().filter(|(_, s)| matches!(s, State::Running { .. })).map(|(id, _)| id).collect()
    }

    /// Waits for a condition, at most two minutes of the world's time.
    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..1200 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let pods: Vec<_> = self.ports.informers.of::<Pod>().list().iter().map(|p| p.status.clone()).collect();
        panic!("not reached: {what}\ncalls {:?}\npods {pods:#?}", self.driver.calls());
    }

    /// Nothing of any pod or volume is left on the machine.
    pub async fn assert_clean(&self) {
        assert!(self.fake.mounts().is_empty(), "{:?}", self.fake.mounts());
        assert!(self.driver.is_idle());
        let dir = |path: &str| PathBuf::from(KUBELET_DIR).join(path);
        for path in ["pods", "plugins/kubernetes.io/csi/test.csi.example"] {
            let left = self.host.disk.list(&dir(path)).await.unwrap();
            assert!(left.is_empty(), "{path}: {left:?}");
        }
        let devices = dir("plugins/kubernetes.io/csi/volumeDevices");
        for name in self.host.disk.list(&devices).await.unwrap() {
            let left = self.host.disk.list(&devices.join(&name)).await.unwrap();
            assert!(["publish", "staging"].contains(&name.as_str()) && left.is_empty(), "{name}: {left:?}");
        }
    }
}

/// The account of the namespace, and the authority that pods trust.
async fn what_controllers_make(effects: &Effects) {
    let account = json!({"metadata": {"name": "default", "namespace": "default"}});
    effects.create::<ServiceAccount>(&serde_json::from_value(account).unwrap()).await.unwrap();
    let name = keys::ROOT_CA_MAP;
    let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"ca.crt": "authority"}});
    effects.create::<ConfigMap>(&serde_json::from_value(map).unwrap()).await.unwrap();
}

/// A client with a node's own rights: the Node authorizer and NodeRestriction see every request.
fn as_node(server: &Server, refused: &Arc<Mutex<Vec<String>>>) -> Client {
    let groups = vec!["system:nodes".to_owned(), "system:authenticated".to_owned()];
    let user = User { name: format!("system:node:{NODE}"), groups, ..User::default() };
    let (server, refused) = (server.clone(), refused.clone());
    in_process(tower::service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(user.clone());
        let (asked, refused) = (format!("{} {}", request.method(), request.uri()), refused.clone());
        let answer = server.clone().call(request);
        async move {
            let answer = answer.await;
            if answer.as_ref().is_ok_and(|answer| answer.status() == 403) {
                refused.lock().unwrap().push(asked);
            }
            answer
        }
    }))
}

async fn process(server: &Server, host: &Host) -> Ports {
    let stop = CancellationToken::new();
    looking(Ports::new(in_process(server.clone()), host.clone(), Journal::default(), stop)).await
}

/// Follows what tests look at: events from the start, so that all are there, and objects that are there at once.
async fn looking(ports: Ports) -> Ports {
    ports.informers.of::<Event>();
    ports.informers.of::<Pod>().synced().await;
    ports.informers.of::<Node>().synced().await;
    ports.informers.of::<CSINode>().synced().await;
    ports
}
