//! The life of a few volumes: provision, attach, expand, modify, snapshot, group snapshot, restore, clone, delete. Each step
//! waits for its own outcome, so that it can be run alone, with a change of sidecars before it.

use serde_json::{Value, json};

use super::cluster::SidecarCluster;
use super::objects::{
    ATTACHMENT, CLAIM, CONTENT, GROUP_CONTENT, GROUP_SNAPSHOT, POD, VOLUME, VOLUME_SNAPSHOT,
};

pub const SMALL: &str = "64Mi";
pub const LARGE: &str = "128Mi";
const GROUP_LABEL: &str = "one-moment";

fn claim(class: &str, size: &str) -> Value {
    json!({"spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}}}})
}

pub fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}

pub fn has_capacity(claim: &Value, size: &str) -> bool {
    claim["status"]["capacity"]["storage"] == size
}

/// The rest is the kubelet's part, which sees the claim when it looks at the pod again: that may be a minute later.
pub fn expanded_by_controller(claim: &Value) -> bool {
    let status = &claim["status"];
    status["allocatedResourceStatuses"]["storage"] == "NodeResizePending" || has_capacity(claim, LARGE)
}

pub fn is_modified(claim: &Value, class: &str) -> bool {
    let status = &claim["status"];
    status["currentVolumeAttributesClassName"] == class && status["modifyVolumeStatus"].is_null()
}

pub fn is_ready(snapshot: &Value) -> bool {
    snapshot["status"]["readyToUse"] == true
}

/// What the script does of what not all sidecars can do.
#[derive(Clone, Copy)]
pub struct Operations {
    pub groups: bool,
    pub restore: bool,
}

impl SidecarCluster {
    /// A filesystem with attributes, a raw device, and a filesystem that waits for its first user.
    pub async fn provision(&self) {
        let mut data = claim("growing", SMALL);
        data["spec"]["volumeAttributesClassName"] = "near".into();
        data["metadata"] = json!({"labels": {GROUP_LABEL: "yes"}});
        let mut disk = claim("growing", SMALL);
        disk["spec"]["volumeMode"] = "Block".into();
        disk["metadata"] = json!({"labels": {GROUP_LABEL: "yes"}});
        self.objects.create(CLAIM, "data", data).await;
        self.objects.create(CLAIM, "disk", disk).await;
        for name in ["data", "disk"] {
            self.objects.until(CLAIM, name, "Bound", is_bound).await;
        }
        self.objects.create(CLAIM, "patient", claim("growing-later", SMALL)).await;
    }

    /// A pod writes to all three and stays.
    pub async fn attach(&self) {
        let script = "echo kept > /data/file && echo kept > /patient/file && echo kept > /dev/disk && sync && sleep 6000";
        let pod = bowline_api::build::pod("writer").shell(script).mount("data", "/data");
        let pod = pod.mount("patient", "/patient").device("disk", "/dev/disk").grace_seconds(1).build();
        self.objects.create(POD, "writer", serde_json::to_value(pod).expect("JSON")).await;
        self.objects.until(CLAIM, "patient", "Bound", is_bound).await;
        self.objects.until(POD, "writer", "Running", |pod| pod["status"]["phase"] == "Running").await;
    }

    /// Online: the device by the driver alone, the filesystem with the kubelet's part.
    pub async fn expand(&self) {
        for name in ["disk", "data"] {
            self.grow(name).await;
        }
        self.objects.until(CLAIM, "disk", "expanded", |claim| has_capacity(claim, LARGE)).await;
        self.objects.until(CLAIM, "data", "expanded", expanded_by_controller).await;
    }

    pub async fn grow(&self, claim: &str) {
        let patch = json!({"spec": {"resources": {"requests": {"storage": LARGE}}}});
        self.objects.merge(CLAIM, claim, patch).await;
    }

    pub async fn modify(&self) {
        self.want_class("data", "far").await;
        self.objects.until(CLAIM, "data", "modified", |claim| is_modified(claim, "far")).await;
    }

    pub async fn want_class(&self, claim: &str, class: &str) {
        self.objects.merge(CLAIM, claim, json!({"spec": {"volumeAttributesClassName": class}})).await;
    }

    pub async fn snapshot(&self) {
        self.take("picture", "data").await;
        self.objects.until(VOLUME_SNAPSHOT, "picture", "ready", is_ready).await;
    }

    pub async fn take(&self, name: &str, claim: &str) {
        let snapshot = json!({"spec": {"source": {"persistentVolumeClaimName": claim}}});
        self.objects.create(VOLUME_SNAPSHOT, name, snapshot).await;
    }

    /// Both claims with the label, at one moment.
    pub async fn group_snapshot(&self) {
        self.take_group("album").await;
        self.objects.until(GROUP_SNAPSHOT, "album", "ready", is_ready).await;
        for member in self.members("album").await {
            let name = member["metadata"]["name"].as_str().expect("a name").to_owned();
            self.objects.until(VOLUME_SNAPSHOT, &name, "ready", is_ready).await;
        }
    }

    pub async fn take_group(&self, name: &str) {
        let group = json!({"spec": {"source": {"selector": {"matchLabels": {GROUP_LABEL: "yes"}}}}});
        self.objects.create(GROUP_SNAPSHOT, name, group).await;
    }

    /// The snapshots of a group, once there is one for each of its two volumes.
    async fn members(&self, group: &str) -> Vec<Value> {
        let found = async {
            loop {
                let mut members = self.objects.list(VOLUME_SNAPSHOT).await;
                members.retain(|snapshot| snapshot["metadata"]["ownerReferences"][0]["name"] == group);
                if members.len() == 2 {
                    return members;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(crate::support::PATIENCE, found).await.expect("two members")
    }

    pub async fn restore(&self) {
        self.fill("restored", "snapshot.storage.k8s.io", "VolumeSnapshot", "picture").await;
        self.objects.until(CLAIM, "restored", "Bound", is_bound).await;
    }

    pub async fn clone_volume(&self) {
        self.fill("copy", "", "PersistentVolumeClaim", "data").await;
        self.objects.until(CLAIM, "copy", "Bound", is_bound).await;
    }

    /// A raw device, whose expansion ends without a node, in the group of [`SidecarCluster::take_group`].
    pub async fn block_claim(&self, name: &str) {
        let mut object = claim("growing", SMALL);
        object["spec"]["volumeMode"] = "Block".into();
        object["spec"]["volumeAttributesClassName"] = "near".into();
        object["metadata"] = json!({"labels": {GROUP_LABEL: "yes"}});
        self.objects.create(CLAIM, name, object).await;
    }

    /// What the driver calls the volume of a claim.
    pub async fn handle(&self, name: &str) -> String {
        let claim = self.objects.until(CLAIM, name, "Bound", is_bound).await;
        let volume = claim["spec"]["volumeName"].as_str().expect("a volume").to_owned();
        let volume = self.objects.until(VOLUME, &volume, "there", Value::is_object).await;
        volume["spec"]["csi"]["volumeHandle"].as_str().expect("a handle").to_owned()
    }

    /// A claim whose first bytes are those of another object.
    pub async fn fill(&self, name: &str, group: &str, kind: &str, source: &str) {
        self.fill_with(name, group, kind, source, "Filesystem").await;
    }

    pub async fn fill_block(&self, name: &str, group: &str, kind: &str, source: &str) {
        self.fill_with(name, group, kind, source, "Block").await;
    }

    async fn fill_with(&self, name: &str, group: &str, kind: &str, source: &str, mode: &str) {
        let mut object = claim("growing", LARGE);
        object["spec"]["volumeMode"] = mode.into();
        let mut data_source = json!({"kind": kind, "name": source});
        if !group.is_empty() {
            data_source["apiGroup"] = group.into();
        }
        object["spec"]["dataSource"] = data_source;
        self.objects.create(CLAIM, name, object).await;
    }

    /// A pod finds in these claims what was written into the first.
    async fn content_is_in(&self, claims: &[&str]) {
        let found: Vec<String> = claims.iter().map(|claim| format!("grep -q kept /{claim}/file")).collect();
        let mut pod = bowline_api::build::pod("reader").shell(&found.join(" && ")).grace_seconds(1);
        for claim in claims {
            pod = pod.mount(claim, &format!("/{claim}"));
        }
        self.objects.create(POD, "reader", serde_json::to_value(pod.build()).expect("JSON")).await;
        let ended = |pod: &Value| pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed";
        let pod = self.objects.until(POD, "reader", "at its end", ended).await;
        assert_eq!(pod["status"]["phase"], "Succeeded", "SNAP-1: {pod:#}");
    }

    pub async fn delete(&self) {
        for pod in ["reader", "writer"] {
            self.objects.delete(POD, pod).await;
        }
        self.objects.none(POD).await;
        self.objects.delete(GROUP_SNAPSHOT, "album").await;
        self.objects.delete(VOLUME_SNAPSHOT, "picture").await;
        for kind in [GROUP_SNAPSHOT, VOLUME_SNAPSHOT] {
            self.objects.none(kind).await;
        }
        for claim in self.objects.list(CLAIM).await {
            self.objects.delete(CLAIM, claim["metadata"]["name"].as_str().expect("a name")).await;
        }
        self.objects.none(CLAIM).await;
    }

    /// Neither in the API nor in the driver's pool.
    pub async fn nothing_remains(&self) {
        for kind in [GROUP_CONTENT, CONTENT, ATTACHMENT, VOLUME] {
            self.objects.none(kind).await;
        }
        for shelf in ["volumes", "snapshots", "groups"] {
            assert_eq!(self.kept(shelf), 0, "PROV-2, SNAP-1: {shelf}");
        }
    }

    pub async fn script(&self, operations: Operations) {
        self.provision().await;
        self.attach().await;
        self.expand().await;
        self.modify().await;
        self.snapshot().await;
        if operations.groups {
            self.group_snapshot().await;
        }
        let expected = if operations.groups { 3 } else { 1 };
        assert_eq!(self.kept("snapshots"), expected, "SNAP-1: one of its own and two of the group");
        self.clone_volume().await;
        if operations.restore {
            self.restore().await;
            self.content_is_in(&["copy", "restored"]).await;
        } else {
            self.content_is_in(&["copy"]).await;
        }
        let expected = if operations.restore { 5 } else { 4 };
        assert_eq!(self.kept("volumes"), expected, "PROV-1");
        self.delete().await;
        self.nothing_remains().await;
    }
}
