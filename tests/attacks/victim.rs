//! Another tenant: a pod on a filesystem and a pod on a raw device, with known content.

use std::path::PathBuf;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use kube::{Api, Client};
use serde_json::json;

use crate::outcome::{make_claim, make_pod, namespace};
use crate::support::Cluster;
use crate::support::objects::{create, delete, until, until_gone};

pub const VICTIM: &str = "alice";
const CONTENT: &str = "what alice keeps";

pub struct Victim {
    client: Client,
    /// The filesystem's file and the device, as the machine's root sees them.
    file: PathBuf,
    device: PathBuf,
    pub uid: String,
}

impl Victim {
    pub async fn start(cluster: &Cluster) -> Self {
        let client = cluster.client().await;
        namespace(&client, VICTIM).await;
        for (claim, block) in [("files", false), ("device", true)] {
            make_claim(&client, VICTIM, claim, block).await;
        }
        let secret =
            json!({"metadata": {"name": "key", "namespace": VICTIM}, "stringData": {"password": CONTENT}});
        let secret: Secret = serde_json::from_value(secret).expect("a secret");
        create(&Api::namespaced(client.clone(), VICTIM), &secret).await.expect("create the secret");
        let write = format!(
            "printf '{CONTENT}' > /data/file && printf '{CONTENT}' > /dev/own && sync && exec sleep 3600"
        );
        let spec = json!({
            "terminationGracePeriodSeconds": 0,
            "volumes": [
                {"name": "files", "persistentVolumeClaim": {"claimName": "files"}},
                {"name": "device", "persistentVolumeClaim": {"claimName": "device"}},
                {"name": "key", "secret": {"secretName": "key"}},
            ],
            "containers": [{
                "name": "main", "image": "host", "command": ["/bin/sh", "-c", write],
                "volumeMounts": [{"name": "files", "mountPath": "/data"}, {"name": "key", "mountPath": "/key"}],
                "volumeDevices": [{"name": "device", "devicePath": "/dev/own"}],
            }],
        });
        make_pod(&client, VICTIM, "keeper", spec).await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), VICTIM);
        let runs = |pod: Option<&Pod>| pod.is_some_and(|pod| bowline_api::pod::phase(pod) == "Running");
        until(&pods, "keeper", "Running", runs).await.expect("the victim runs");
        let uid = pods.get("keeper").await.expect("the victim").uid().to_owned();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), VICTIM);
        let volume = |claim: PersistentVolumeClaim| claim.spec.and_then(|s| s.volume_name).expect("bound");
        let files = volume(claims.get("files").await.expect("the claim"));
        let device = volume(claims.get("device").await.expect("the claim"));
        let pod = cluster.kubelet_dir().join("pods").join(&uid);
        let victim = Self {
            client,
            file: pod.join("volumes/kubernetes.io~csi").join(files).join("mount/file"),
            device: pod.join("volumeDevices/kubernetes.io~csi").join(device),
            uid,
        };
        victim.until_written().await;
        victim
    }

    async fn until_written(&self) {
        let written = async {
            while self.content().is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(crate::support::PATIENCE, written).await.expect("the victim writes its data");
    }

    fn content(&self) -> Result<(), String> {
        let read = |path: &PathBuf| -> Result<Vec<u8>, String> {
            use std::io::Read;
            let mut bytes = vec![0; CONTENT.len()];
            let opened = std::fs::File::open(path);
            let read = opened.and_then(|mut file| file.read_exact(&mut bytes));
            read.map(|()| bytes).map_err(|e| format!("{}: {e}", path.display()))
        };
        for path in [&self.file, &self.device] {
            if read(path)? != CONTENT.as_bytes() {
                return Err(format!("other bytes in {}", path.display()));
            }
        }
        Ok(())
    }

    /// Runs since the beginning, on the bytes that it wrote.
    pub async fn is_unharmed(&self) -> Result<(), String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), VICTIM);
        let pod = pods.get("keeper").await.map_err(|e| e.to_string())?;
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let restarts = statuses.and_then(|all| all.first()).map_or(-1, |status| status.restart_count);
        match (bowline_api::pod::phase(&pod), restarts) {
            ("Running", 0) => self.content(),
            (phase, restarts) => Err(format!("{phase} after {restarts} restarts")),
        }
    }

    pub async fn leave(&self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), VICTIM);
        delete(&pods, "keeper").await.expect("delete the victim");
        until_gone(&pods, "keeper").await.expect("the victim goes");
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), VICTIM);
        for claim in ["files", "device"] {
            delete(&claims, claim).await.expect("delete its claim");
            until_gone(&claims, claim).await.expect("its claim goes");
        }
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        for volume in volumes.list(&Default::default()).await.expect("list volumes") {
            until_gone(&volumes, volume.name()).await.expect("its volume goes");
        }
    }
}
