//! Promises that objects alone can show, at every version of each.

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, VolumeAttachment, keys, volume};
use bowline_roles::invariants::{Snapshot, violations};

use super::Oracle;

impl Oracle {
    pub(super) fn claim_changed(
        &mut self,
        old: Option<&PersistentVolumeClaim>,
        new: Option<&PersistentVolumeClaim>,
    ) {
        if let (Some(old), Some(new)) = (old, new) {
            self.bind_1_claim(old, new);
            self.res_1_claim(old, new);
        }
        self.at_one_moment();
    }

    pub(super) fn volume_changed(&mut self, old: Option<&PersistentVolume>, new: Option<&PersistentVolume>) {
        if let (Some(old), Some(new)) = (old, new) {
            self.bind_1_volume(old, new);
        }
        if let Some(new) = new {
            self.policy_of(new);
            self.res_1_volume(old, new);
        }
        self.at_one_moment();
    }

    pub(super) fn attachment_changed(
        &mut self,
        old: Option<&VolumeAttachment>,
        new: Option<&VolumeAttachment>,
    ) {
        if let Some(old) = old {
            self.att_1_finalizer(old, new);
        }
        self.at_one_moment();
    }

    /// BIND-1, BIND-2, PROV-1, ATT-1 and ATT-2, as far as one moment shows them.
    fn at_one_moment(&mut self) {
        let snapshot = Snapshot {
            claims: self.claims.values().cloned().collect(),
            volumes: self.volumes.values().cloned().collect(),
            attachments: self.attachments.values().cloned().collect(),
        };
        for text in violations(&snapshot) {
            self.broken(text);
        }
    }

    /// A claim that has a volume keeps it.
    fn bind_1_claim(&mut self, old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) {
        let (before, after) = (volume::claim_volume(old), volume::claim_volume(new));
        if old.uid() == new.uid() && !before.is_empty() && before != after {
            self.broken(format!("BIND-1: claim {} changed from {before} to `{after}`", new.key()));
        }
    }

    /// A volume that belongs to a claim, by UID, belongs to no other.
    fn bind_1_volume(&mut self, old: &PersistentVolume, new: &PersistentVolume) {
        let owner = |volume: &PersistentVolume| volume::claim_ref(volume).and_then(|claim| claim.uid.clone());
        let (before, after) = (owner(old), owner(new));
        if old.uid() == new.uid() && before.is_some() && before != after {
            self.broken(format!("BIND-1: {} changed owners from {before:?} to {after:?}", new.name()));
        }
    }

    /// Status never says more than the volume has, and what was promised does not shrink.
    fn res_1_claim(&mut self, old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) {
        let told = |claim: &PersistentVolumeClaim| {
            let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref())?;
            bowline_api::bytes_of(capacity.get(volume::STORAGE)?).ok()
        };
        let Some(now) = told(new) else { return };
        if old.uid() == new.uid() && told(old).is_some_and(|before| before > now) {
            self.broken(format!("RES-1: claim {} was promised more than {now} bytes", new.key()));
        }
        let found = self.volumes.values().find(|found| found.name() == volume::claim_volume(new));
        let has = found.and_then(|found| volume::capacity_bytes(found).ok());
        if has.is_some_and(|has| now > has) {
            self.broken(format!("RES-1: claim {} says {now} bytes, its volume has {has:?}", new.key()));
        }
    }

    /// A volume's object says no more than the driver made, and does not shrink.
    fn res_1_volume(&mut self, old: Option<&PersistentVolume>, new: &PersistentVolume) {
        let Ok(now) = volume::capacity_bytes(new) else { return };
        let before =
            old.filter(|old| old.uid() == new.uid()).and_then(|old| volume::capacity_bytes(old).ok());
        if before.is_some_and(|before| before > now) {
            self.broken(format!("RES-1: volume {} shrank to {now} bytes", new.name()));
        }
        let Some(csi) = volume::csi(new) else { return };
        let made = self.backend_bytes(&csi.volume_handle).map(i128::from);
        if made.is_some_and(|made| i128::from(now) > made) {
            self.broken(format!("RES-1: volume {} says {now} bytes, the driver made {made:?}", new.name()));
        }
    }

    /// ControllerUnpublish before the finalizer goes.
    fn att_1_finalizer(&mut self, old: &VolumeAttachment, new: Option<&VolumeAttachment>) {
        let finalizer = keys::attacher_finalizer(&old.spec.attacher);
        let guarded = |attachment: &VolumeAttachment| attachment.has_finalizer(&finalizer);
        if !guarded(old) || new.is_some_and(guarded) {
            return;
        }
        let Some(handle) = self.handle_of(old) else { return };
        if self.published_nodes(&handle).contains(&old.spec.node_name) {
            self.broken(format!(
                "ATT-1: attachment {} lost its finalizer while {handle} is published to {}",
                old.name(),
                old.spec.node_name
            ));
        }
    }

    /// The name of the claim that a volume, a volume's id, an attachment, a pod or a claim has to do with.
    pub fn claim_about(&self, text: &str) -> Option<String> {
        let name = text.rsplit('/').next().filter(|name| !name.is_empty())?;
        if let Some(claim) = self.claims.values().find(|claim| claim.name() == name) {
            return Some(claim.name().to_owned());
        }
        if let Some(pod) = self.pods.values().find(|pod| pod.name() == name) {
            return bowline_api::pod::claims(pod).next().map(|(_, claim)| claim);
        }
        let asked = self.claims.values().find(|claim| !claim.uid().is_empty() && name.ends_with(claim.uid()));
        if let Some(claim) = asked {
            return Some(claim.name().to_owned());
        }
        let attachment = self.attachments.values().find(|one| one.name() == name);
        let volume = attachment.and_then(|one| volume::attachment_volume(one)).unwrap_or(name);
        let named = self.volumes.values().find(|found| found.name() == volume);
        volume::claim_ref(named.or_else(|| self.volume_of(name))?)?.name.clone()
    }

    fn handle_of(&self, attachment: &VolumeAttachment) -> Option<String> {
        self.handle_named(volume::attachment_volume(attachment)?)
    }

    /// The backend volume of an object.
    pub(super) fn handle_named(&self, name: &str) -> Option<String> {
        let mut all = self.volumes.values().chain(self.gone.values());
        volume::csi(all.find(|found| found.name() == name)?).map(|csi| csi.volume_handle.clone())
    }
}
