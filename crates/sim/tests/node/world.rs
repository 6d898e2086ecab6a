//! A kubelet that comes and goes on a machine in memory.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use bowline_api::{Meta, Node, Pod, ServiceAccount, node};
use bowline_machinery::Object;
use bowline_roles::crew::Crew;
use bowline_roles::kubelet::{Kubelet, KubeletConfig, run_kubelet};
use bowline_sim::stage::Stage;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub const NODE: &str = "node-1";
const KUBELET_DIR: &str = "/var/lib/kubelet";

pub struct World(Stage);

impl Deref for World {
    type Target = Stage;
    fn deref(&self) -> &Stage {
        &self.0
    }
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
        let world = Self(Stage::new(7).await);
        let account = json!({"metadata": {"name": "default", "namespace": "default"}});
        world.make::<ServiceAccount>(account).await;
        world
    }

    pub async fn start(&self) -> Process {
        let (ports, crew) = (self.process(self.line()).ports, Crew::default());
        let stop = ports.stop.clone();
        let kubelet = run_kubelet(ports, KubeletConfig::new(NODE, KUBELET_DIR), &crew).await.unwrap();
        Process { stop, crew, _kubelet: kubelet }
    }

    pub async fn make<K: Object>(&self, object: Value) -> K {
        self.create(&serde_json::from_value::<K>(object).unwrap()).await
    }

    /// A pod on the node, with one volume at `/data`.
    pub async fn pod(&self, volume: Value) -> Pod {
        let mut named = json!({"name": "v"});
        named.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let mounts = json!([{"name": "v", "mountPath": "/data"}]);
        let container = json!({"name": "main", "image": "host", "command": ["run"], "volumeMounts": mounts});
        let spec = json!({"nodeName": NODE, "containers": [container], "volumes": [named]});
        self.make(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec})).await
    }

    /// Whether the kubelet has said that pods may come.
    pub async fn is_ready(&self) -> bool {
        self.user.get_live::<Node>("", NODE).await.unwrap().is_some_and(|found| node::ready(&found))
    }

    /// Whether an event has this in its message.
    pub async fn told(&self, text: &str) -> bool {
        self.events().await.into_iter().any(|event| event.message.is_some_and(|told| told.contains(text)))
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
