//! Caches → what the decision needs.

use std::sync::Arc;

use bowline_api::{
    Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, VolumeSnapshot, VolumeSnapshotContent,
};
use bowline_api::{keys, selector, snapshot, volume};
use bowline_machinery::EffectError;

use super::decide::content_name;
use super::model::{Content, Key, Observed, Snapshot};
use super::role::SnapshotController;
use crate::indexes;
use crate::sidecars::snapshots::{bound_content, is_ready};

impl SnapshotController {
    pub(super) async fn see(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        match key {
            Key::Snapshot(key) => {
                let Some(object) = self.snapshots.get(key) else { return Ok(None) };
                let seen = self.see_snapshot(object).await?;
                Ok(Some(Observed::Snapshot(Box::new(seen))))
            }
            Key::Content(name) => {
                Ok(self.contents.named(name).map(|object| Observed::Content(Content { object })))
            }
        }
    }

    async fn see_snapshot(&self, object: Arc<VolumeSnapshot>) -> Result<Snapshot, EffectError> {
        let claim = self.claim_of(&object);
        let volume = claim.as_ref().and_then(|claim| self.volumes.named(volume::claim_volume(claim)));
        let class = object.spec.volume_snapshot_class_name.as_deref();
        Ok(Snapshot {
            settings: self.settings.clone(),
            class: class.and_then(|name| self.classes.named(name)),
            defaults: if class.is_none() { self.default_classes() } else { Vec::new() },
            claim_used: self.claim_used(&object),
            node: volume.as_deref().and_then(|volume| self.node_of(volume)),
            content: self.content_of(&object).await?,
            restoring: self.restoring(&object),
            unanswered: self.memory.unanswered(object.uid()),
            claim,
            volume,
            object,
        })
    }

    fn claim_of(&self, snapshot: &VolumeSnapshot) -> Option<Arc<PersistentVolumeClaim>> {
        let name = snapshot.spec.source.persistent_volume_claim_name.as_deref()?;
        self.claims.get(&ObjectKey::new(snapshot.namespace(), name))
    }

    /// Whether another snapshot needs the claim to stay: one that is not ready (5.10, 11).
    fn claim_used(&self, snapshot: &VolumeSnapshot) -> bool {
        let Some(name) = snapshot.spec.source.persistent_volume_claim_name.as_deref() else { return false };
        let claim = ObjectKey::new(snapshot.namespace(), name).to_string();
        let mut others = self.snapshots.indexed(indexes::SNAPSHOTS_BY_CLAIM, &claim).into_iter();
        others.any(|other| other.uid() != snapshot.uid() && !is_ready(&other))
    }

    /// A deleted snapshot whose content is not in the cache asks the API server: a content that is overlooked would stay,
    /// and the backend's snapshot with it.
    async fn content_of(
        &self,
        object: &VolumeSnapshot,
    ) -> Result<Option<Arc<VolumeSnapshotContent>>, EffectError> {
        let source = &object.spec.source;
        let of_claim = source.persistent_volume_claim_name.is_some().then(|| content_name(object));
        let bound = bound_content(object).map(String::from);
        let name = if object.deleting() {
            bound.or(of_claim)
        } else if is_ready(object) || owned_by_group(object) {
            bound
        } else {
            source.volume_snapshot_content_name.clone().or(of_claim)
        };
        let Some(name) = name else { return Ok(None) };
        match self.contents.named(&name) {
            None if object.deleting() => Ok(self.effects.get_live("", &name).await?.map(Arc::new)),
            cached => Ok(cached),
        }
    }

    fn default_classes(&self) -> Vec<Arc<bowline_api::VolumeSnapshotClass>> {
        let classes = self.classes.list().into_iter();
        classes.filter(|class| class.annotation(keys::DEFAULT_SNAPSHOT_CLASS) == Some("true")).collect()
    }

    /// A claim that waits for a volume with the content of this snapshot.
    fn restoring(&self, snapshot: &VolumeSnapshot) -> Option<String> {
        let key = snapshot.key().to_string();
        let claims = self.claims.indexed(indexes::CLAIMS_BY_SNAPSHOT, &key).into_iter();
        claims
            .filter(|claim| volume::claim_phase(claim) == PENDING)
            .map(|claim| claim.name().to_owned())
            .next()
    }

    /// The first node that a volume with an affinity can be reached from; none in the usual mode.
    fn node_of(&self, volume: &PersistentVolume) -> Option<String> {
        let Some(nodes) = &self.nodes else { return None };
        volume.spec.as_ref()?.node_affinity.as_ref()?;
        let mut reach = nodes.list().into_iter().filter(|node| selector::volume_reachable(volume, node));
        reach.next().map(|node| node.name().to_owned())
    }
}

const PENDING: &str = "Pending";

fn owned_by_group(snapshot: &VolumeSnapshot) -> bool {
    let owners = snapshot.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.kind == snapshot::GROUP_KIND)
}
