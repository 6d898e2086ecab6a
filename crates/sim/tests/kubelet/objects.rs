//! Objects as the other controllers would have left them.

use bowline_api::{
    CSIDriver, Meta, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment, build, name,
};
use bowline_machinery::effect::Part;
use serde_json::{Value, json};

use super::driver::NAME;
use super::world::World;

pub const NODE: &str = "node-1";

impl World {
    pub async fn csi_driver(&self, attach_required: bool) {
        self.csi_driver_with(json!({"attachRequired": attach_required})).await;
    }

    /// With more fields of its spec.
    pub async fn csi_driver_with(&self, fields: Value) {
        let mut spec =
            json!({"attachRequired": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Persistent"]});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let object: CSIDriver =
            serde_json::from_value(json!({"metadata": {"name": NAME}, "spec": spec})).unwrap();
        self.effects().create(&object).await.unwrap();
    }

    /// A claim and its volume, bound to each other. The handle is `handle-<name>`.
    pub async fn bound_claim(&self, name: &str, block: bool, access_mode: &str) {
        self.bound_claim_with(name, block, access_mode, json!({})).await;
    }

    /// With more fields of the volume's source.
    pub async fn bound_claim_with(&self, name: &str, block: bool, access_mode: &str, source: Value) {
        let mut csi = json!({"driver": NAME, "volumeHandle": format!("handle-{name}"), "fsType": "ext4"});
        csi.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let effects = self.effects();
        let claim = build::claim(name).class("").access_mode(access_mode);
        let mut claim = if block { claim.block().build() } else { claim.build() };
        claim.spec.as_mut().unwrap().volume_name = Some(format!("pv-{name}"));
        let claim: PersistentVolumeClaim = effects.create(&claim).await.unwrap();
        let mode = if block { "Block" } else { "Filesystem" };
        let volume: PersistentVolume = serde_json::from_value(json!({
            "metadata": {"name": format!("pv-{name}")},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": [access_mode], "volumeMode": mode,
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": "default", "name": name, "uid": claim.uid(),
                },
                "csi": csi,
            },
        }))
        .unwrap();
        effects.create(&volume).await.unwrap();
        let status = json!({"status": {"phase": "Bound"}});
        effects.patch(Part::Status, &claim, status).await.unwrap();
    }

    /// Creates a pod that is already bound to the node.
    pub async fn pod(&self, mut pod: Pod) -> Pod {
        pod.spec.as_mut().unwrap().node_name = Some(NODE.into());
        self.effects().create(&pod).await.unwrap()
    }

    /// What the attach/detach controller and the attacher do together.
    pub async fn attach_all(&self, claims: &[&str]) {
        let effects = self.effects();
        let mut attached = Vec::new();
        for claim in claims {
            let handle = format!("handle-{claim}");
            let attachment: VolumeAttachment = serde_json::from_value(json!({
                "metadata": {"name": name::attachment(&handle, NAME, NODE)},
                "spec": {
                    "attacher": NAME, "nodeName": NODE, "source": {"persistentVolumeName": format!("pv-{claim}")},
                },
            }))
            .unwrap();
            self.attached(attachment, "/dev/x").await;
            attached.push(json!({"name": name::unique_volume(NAME, &handle), "devicePath": ""}));
        }
        self.until("node is there", |w| w.node().is_some()).await;
        let patch = json!({"status": {"volumesAttached": attached}});
        effects.patch(Part::Status, &self.node().unwrap(), patch).await.unwrap();
    }

    /// A person deletes the attachment, and another one comes, with another device.
    pub async fn attach_again(&self, claim: &str, device: &str) {
        let name = name::attachment(&format!("handle-{claim}"), NAME, NODE);
        let found = self.effects().get_live::<VolumeAttachment>("", &name).await.unwrap().unwrap();
        self.effects().delete(&found, None).await.unwrap();
        let mut next = VolumeAttachment { spec: found.spec, ..Default::default() };
        next.metadata.name = Some(name);
        self.attached(next, device).await;
    }

    async fn attached(&self, attachment: VolumeAttachment, device: &str) {
        let attachment = self.effects().create(&attachment).await.unwrap();
        let status = json!({"status": {"attached": true, "attachmentMetadata": {"device": device}}});
        self.effects().patch(Part::Status, &attachment, status).await.unwrap();
    }

    pub async fn delete(&self, pod: &Pod, grace: Option<u32>) {
        self.effects().delete(pod, grace).await.unwrap();
    }
}
