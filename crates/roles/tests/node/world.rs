//! An API server in memory, a machine in memory, and a kubelet on it that comes and goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Event, Meta, Node, Pod, ServiceAccount, node};
use bowline_apiserver::auth::token::TokenSettings;
use bowline_apiserver::{Registry, Server, Store, auth, kinds::register};
use bowline_host::Host;
use bowline_host::fake::{self, FakeHost};
use bowline_machinery::effect::Part;
use bowline_machinery::{Effects, Journal, Object, Ports, client};
use bowline_roles::crew::Crew;
use bowline_roles::kubelet::{Kubelet, KubeletConfig, run_kubelet};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub const NODE: &str = "node-1";
const KUBELET_DIR: &str = "/var/lib/kubelet";

pub struct World {
    server: Server,
    pub host: Host,
    pub machine: Arc<FakeHost>,
    user: Effects,
}

/// One life of the kubelet.
pub struct Process {
    stop: CancellationToken,
    crew: Crew,
    _kubelet: Kubelet,
}

impl Process {
    pub async fn end(self) {
        self.stop.cancel();
        self.crew.finished().await.unwrap();
    }
}

impl World {
    pub async fn new() -> Self {
        let (host, machine) = fake::host(7);
        let mut registry = Registry::new();
        register::register(&mut registry);
        register::register_admission(&mut registry);
        let tokens = TokenSettings::ephemeral("https://kubernetes.default.svc").unwrap();
        let access = auth::Settings { tokens: Some(tokens), ..auth::Settings::default() };
        let (clock, random) = (host.clock.clone(), host.random.clone());
        let server = Server::guarded(Store::memory(), registry, clock, random, access);
        server.bootstrap().await.unwrap();
        let stop = CancellationToken::new();
        let ports = Ports::new(client::in_process(server.clone()), host.clone(), Journal::default(), stop);
        let world = Self { server, host, machine, user: ports.effects("user") };
        let account = json!({"metadata": {"name": "default", "namespace": "default"}});
        world.create::<ServiceAccount>(account).await;
        world
    }

    pub async fn start(&self) -> Process {
        let (stop, crew) = (CancellationToken::new(), Crew::default());
        let client = client::in_process(self.server.clone());
        let ports = Ports::new(client, self.host.clone(), Journal::default(), stop.clone());
        let kubelet = run_kubelet(ports, KubeletConfig::new(NODE, KUBELET_DIR), &crew).await.unwrap();
        Process { stop, crew, _kubelet: kubelet }
    }

    pub async fn create<K: Object>(&self, object: Value) -> K {
        self.user.create(&serde_json::from_value::<K>(object).unwrap()).await.unwrap()
    }

    /// A pod on the node, with one volume at `/data`.
    pub async fn pod(&self, volume: Value) -> Pod {
        let mut named = json!({"name": "v"});
        named.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let mounts = json!([{"name": "v", "mountPath": "/data"}]);
        let container = json!({"name": "main", "image": "host", "command": ["run"], "volumeMounts": mounts});
        let spec = json!({"nodeName": NODE, "containers": [container], "volumes": [named]});
        self.create(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec})).await
    }

    /// Takes the object out of the API at once.
    pub async fn delete<K: Object>(&self, object: &K) {
        self.user.delete(object, Some(0)).await.unwrap();
    }

    pub async fn patch<K: Object>(&self, object: &K, patch: Value) {
        self.user.patch(Part::Main, object, patch).await.unwrap();
    }

    pub async fn get<K: Object>(&self, of: &K) -> Option<K> {
        self.user.get_live::<K>(of.namespace(), of.name()).await.unwrap()
    }

    /// Whether the kubelet has said that pods may come.
    pub async fn is_ready(&self) -> bool {
        self.user.get_live::<Node>("", NODE).await.unwrap().is_some_and(|found| node::ready(&found))
    }

    pub async fn events(&self) -> Vec<String> {
        let events = self.user.list_live::<Event>("").await.unwrap();
        events.into_iter().filter_map(|event| event.message).collect()
    }

    /// Waits, on paused time, until this holds.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        for _ in 0..2_000 {
            if condition().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never came true: {what}");
    }

    pub fn kubelet_dir(&self) -> PathBuf {
        KUBELET_DIR.into()
    }

    /// A file in the pod's volume.
    pub async fn file(&self, pod: &Pod, plugin: &str, name: &str) -> Option<String> {
        let volumes = self.kubelet_dir().join("pods").join(pod.uid()).join("volumes");
        let content = self.host.disk.read(&volumes.join(plugin).join("v").join(name)).await.ok()?;
        Some(String::from_utf8(content).unwrap())
    }

    /// Nothing of any pod is on the machine, at the latest after a while.
    pub async fn until_clean(&self) {
        let empty = async |path: &Path| self.host.disk.list(path).await.unwrap().is_empty();
        for kind in ["pods", "pod-logs"] {
            self.until(kind, async || empty(&self.kubelet_dir().join(kind)).await).await;
        }
        assert_eq!(self.machine.mounts(), []);
        assert_eq!(self.machine.containers().len(), 0);
    }
}
