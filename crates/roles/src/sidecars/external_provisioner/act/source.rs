//! The finalizer on what volumes are copied from.

use bowline_api::snapshot::VolumeSnapshot;
use bowline_api::{Meta, keys};
use bowline_machinery::effect::{EffectError, Part};

use super::super::model::{Claim, Source, SourceClaim, SourceSnapshot};
use super::super::role::Provisioner;

impl Provisioner {
    /// Replaced whole, so that the resourceVersion guards the edits of others.
    pub(super) async fn protect_source(&self, seen: &Claim) -> Result<(), EffectError> {
        match &seen.source {
            Source::Claim { claim: Some(source), .. } => {
                let mut source = source.as_ref().clone();
                source.add_finalizer(keys::CLONING_PROTECTION);
                self.effects.replace(Part::Main, &source).await.map(drop)
            }
            Source::Snapshot { snapshot: Some(source), .. } => {
                let mut source = source.as_ref().clone();
                source.add_finalizer(keys::RESTORE_PROTECTION);
                self.replace_snapshot(&source).await
            }
            Source::None | Source::Claim { .. } | Source::Snapshot { .. } => Ok(()),
        }
    }

    pub(super) async fn release_snapshot(&self, seen: &SourceSnapshot) -> Result<(), EffectError> {
        let mut source = seen.object.as_ref().clone();
        source.remove_finalizer(keys::RESTORE_PROTECTION);
        match self.replace_snapshot(&source).await {
            Err(error) if error.not_found() => Ok(()),
            done => done,
        }
    }

    /// Upstream's roles do not allow this before 6.3: volumes are restored without protection then.
    async fn replace_snapshot(&self, snapshot: &VolumeSnapshot) -> Result<(), EffectError> {
        match self.effects.replace(Part::Main, snapshot).await {
            Err(error) if error.forbidden() => {
                if self.memory.note_unprotected() {
                    tracing::warn!(
                        snapshot = snapshot.key().to_string(),
                        %error,
                        "cannot put a finalizer on snapshots that volumes are restored from: one that is deleted meanwhile may go too early; grant update on volumesnapshots"
                    );
                }
                Ok(())
            }
            done => done.map(drop),
        }
    }

    pub(super) async fn release_source(&self, seen: &SourceClaim) -> Result<(), EffectError> {
        let mut source = seen.object.as_ref().clone();
        source.remove_finalizer(keys::CLONING_PROTECTION);
        match self.effects.replace(Part::Main, &source).await {
            Err(error) if error.not_found() => Ok(()),
            done => done.map(drop),
        }
    }
}
