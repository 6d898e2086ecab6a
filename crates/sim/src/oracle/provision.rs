//! Promises about backend volumes: one per claim, none too many, none too few.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bowline_api::{Lease, Meta, PersistentVolume, keys, volume};
use bowline_proto::csi::v1 as csi;
use futures::FutureExt;
use prost::Message;

use bowline_host::Disk;

use super::Oracle;
use super::machine::POOL;

/// What is known of backend volumes, and of the calls that make them.
#[derive(Default)]
pub struct Backend {
    /// Calls that are stored now, by the name of their Lease: the UID of the claim and the name of the volume.
    stored: BTreeMap<String, (String, String)>,
    /// Names that volumes were asked for under, by the UID of the claim.
    names: BTreeMap<String, BTreeSet<String>>,
    /// Ids that the driver gave for a name.
    ids: BTreeMap<String, BTreeSet<String>>,
    /// The handles of all volumes that were ever kept, and are not to be deleted since.
    kept: BTreeSet<String>,
}

impl Oracle {
    /// A Lease that stores a CreateVolume.
    pub(super) fn intent_changed(&mut self, lease: &Lease, deleted: bool) {
        let Some(text) = lease.annotation(keys::CREATE_VOLUME) else { return };
        if deleted {
            self.backend.stored.remove(lease.name());
            return;
        }
        let stored: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let uid = stored["claim"]["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let request = STANDARD.decode(stored["request"].as_str().unwrap_or_default()).unwrap_or_default();
        let request = csi::CreateVolumeRequest::decode(request.as_slice()).unwrap_or_default();
        self.backend.stored.insert(lease.name().to_owned(), (uid, request.name));
    }

    /// What is asked for is stored before, or a crash would forget it; and it has one name for each claim, for ever.
    pub(super) fn prov_1_asked(&mut self, name: &str) {
        let stored = self.backend.stored.values().find(|(_, stored)| stored == name);
        let Some((uid, _)) = stored.cloned() else {
            return self.broken(format!("PROV-1: CreateVolume for {name} is sent before it is stored"));
        };
        let names = self.backend.names.entry(uid.clone()).or_default();
        names.insert(name.to_owned());
        if names.len() > 1 {
            let text = format!("PROV-1: volumes {names:?} are asked for claim {uid}");
            self.broken(text);
        }
        let owners = self.backend.names.iter().filter(|(_, names)| names.contains(name));
        let owners: Vec<String> = owners.map(|(uid, _)| uid.clone()).collect();
        if owners.len() > 1 {
            self.broken(format!("PROV-1: volume {name} is asked for claims {owners:?}"));
        }
    }

    /// One name, one volume.
    pub(super) fn prov_1_made(&mut self, name: &str, id: String) {
        let ids = self.backend.ids.entry(name.to_owned()).or_default();
        ids.insert(id);
        if ids.len() > 1 {
            let text = format!("PROV-1: the volumes {ids:?} were made for {name}");
            self.broken(text);
        }
    }

    /// A volume is deleted only when its claim is gone, no node has it mounted, and nothing retains it.
    pub(super) fn deletes(&mut self, handle: &str) {
        self.prov_3(handle);
        let nodes = self.mounted_nodes(handle);
        if !nodes.is_empty() {
            self.broken(format!("ATT-3: DeleteVolume for {handle}, which {nodes:?} has mounted"));
        }
        let Some(found) = self.volume_of(handle) else { return };
        let owner = volume::claim_ref(found).and_then(|claim| claim.uid.clone()).unwrap_or_default();
        let alive = self.claims.values().find(|claim| claim.uid() == owner && volume::bound(claim));
        if let Some(claim) = alive {
            let text = format!("PROV-2: DeleteVolume for {handle}, which claim {} has", claim.key());
            self.broken(text);
        }
    }

    /// Retain never deletes, whatever has become of the object.
    fn prov_3(&mut self, handle: &str) {
        if self.backend.kept.contains(handle) {
            self.broken(format!("PROV-3: DeleteVolume for {handle}, whose policy is Retain"));
        }
    }

    /// The last policy that an object had counts.
    pub(super) fn policy_of(&mut self, object: &PersistentVolume) {
        let Some(csi) = volume::csi(object) else { return };
        if volume::reclaim_policy(object) == "Retain" {
            self.backend.kept.insert(csi.volume_handle.clone());
        } else {
            self.backend.kept.remove(&csi.volume_handle);
        }
    }

    /// Backend volumes that must outlive their claims.
    pub fn retained(&self) -> BTreeSet<String> {
        self.backend.kept.clone()
    }

    /// Bytes that the driver has made for a volume.
    pub(super) fn backend_bytes(&self, handle: &str) -> Option<u64> {
        self.record(handle)?["capacity"].as_u64()
    }

    /// The nodes that the driver has published a volume to, by its own record.
    pub(super) fn published_nodes(&self, handle: &str) -> BTreeSet<String> {
        let Some(record) = self.record(handle) else { return BTreeSet::new() };
        let published = record["published"].as_object();
        published.map(|nodes| nodes.keys().cloned().collect()).unwrap_or_default()
    }

    fn record(&self, handle: &str) -> Option<serde_json::Value> {
        let path = Path::new(POOL).join("volumes").join(handle).join("record.json");
        let bytes = self.machine.read(&path).now_or_never()?.ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Calls that are still stored.
    pub(super) fn stored_calls(&self) -> impl Iterator<Item = &String> {
        self.backend.stored.keys()
    }
}
