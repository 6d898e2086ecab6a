//! The finalizer on what volumes are copied from.

use bowline_api::{Meta, keys};
use bowline_machinery::effect::{EffectError, Part};

use super::super::model::{Claim, Source, SourceClaim};
use super::super::role::Provisioner;

impl Provisioner {
    /// Replaced whole, so that the resourceVersion guards the edits of others.
    pub(super) async fn protect_source(&self, seen: &Claim) -> Result<(), EffectError> {
        let Source::Claim { claim: Some(source), .. } = &seen.source else { return Ok(()) };
        let mut source = source.as_ref().clone();
        source.add_finalizer(keys::CLONING_PROTECTION);
        self.effects.replace(Part::Main, &source).await.map(drop)
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
