//! Storing a call before it is sent, and removing it when its end is known.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bowline_api::{Lease, Meta};
use bowline_machinery::effect::EffectError;

use super::super::decide::source::{cloned_from, restored_from};
use super::super::intent;
use super::super::model::{Claim, Intent, Key, Stored};
use super::super::role::Provisioner;

/// Why nothing is stored without a namespace.
pub(in super::super) const NO_NAMESPACE: &str = "tenants may write leases in the namespace `default`; set --leader-election-namespace to one of the driver's own";

impl Provisioner {
    pub(super) async fn store(&self, seen: &Claim, wanted: Intent) -> Result<(), EffectError> {
        let uid = seen.object.uid();
        if self.namespace.is_empty() {
            self.tell_unstorable(NO_NAMESPACE);
            self.keep(uid, wanted, None);
            return Ok(());
        }
        // A call that cannot be sent is not stored.
        self.secrets(wanted.creation.secrets.provisioner.as_ref()).await?;
        let lease = match intent::lease(&self.settings, &self.namespace, &wanted) {
            Ok(lease) => lease,
            Err(why) => {
                self.tell_unstorable(&why);
                self.keep(uid, wanted, None);
                return Ok(());
            }
        };
        match self.effects.create(&lease).await {
            Ok(lease) => self.keep(uid, wanted, Some(lease)),
            Err(error) if never_stored(&error) => {
                self.tell_unstorable(&error.message);
                self.keep(uid, wanted, None);
            }
            Err(error) if error.conflict() => return self.found(uid, lease.name()).await,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// There is one already: this process's, whose answer was lost, or one of a process that may have sent it.
    async fn found(&self, uid: &str, name: &str) -> Result<(), EffectError> {
        let Some(lease) = self.effects.get_live::<Lease>(&self.namespace, name).await? else {
            return Err(EffectError::refused(format!("lease {}/{name} existed and is gone", self.namespace)));
        };
        let own = intent::is_own(&self.settings, &lease);
        let stored = intent::stored(&self.settings, lease).map_err(|why| {
            let lease = format!("{}/{name}", self.namespace);
            EffectError::refused(format!(
                "cannot read the CreateVolume that lease {lease} stores: {why}; delete the lease once no volume of this claim is left"
            ))
        })?;
        if own {
            self.memory.change(uid, |record| record.stored = Some(stored));
        } else {
            self.memory.adopt(stored);
        }
        Ok(())
    }

    fn keep(&self, uid: &str, intent: Intent, lease: Option<Lease>) {
        let stored = Stored { intent: Arc::new(intent), lease: lease.map(Arc::new) };
        self.memory.change(uid, |record| record.stored = Some(stored));
    }

    pub(super) async fn forget(&self, seen: &Claim) -> Result<(), EffectError> {
        if let Some(lease) = seen.attempt.stored.as_ref().and_then(|stored| stored.lease.as_ref()) {
            match self.effects.delete(lease.as_ref(), None).await {
                Ok(()) => {}
                Err(error) if error.forbidden() => self.tell_unremovable(lease.name(), &error.message),
                Err(error) => {
                    self.memory.change(seen.object.uid(), |record| record.unremoved = true);
                    return Err(error);
                }
            }
        }
        self.memory.unstored(seen.object.uid());
        // The call may have been the last one that copied from there.
        if let Some(source) = cloned_from(&seen.object) {
            self.queue.add(Key::Source(source));
        }
        if let Some(source) = restored_from(&seen.object) {
            self.queue.add(Key::Snapshot(source));
        }
        Ok(())
    }

    pub(super) fn adopt(&self, unknown: Vec<Stored>) {
        for stored in unknown {
            let uid = stored.intent.claim.uid().to_owned();
            tracing::info!(
                claim = stored.intent.claim.key().to_string(),
                volume = stored.intent.creation.request.name,
                "finishing a CreateVolume that an earlier process stored"
            );
            self.memory.adopt(stored);
            self.queue.add(Key::Claim(uid));
        }
    }

    /// Said once: the claim must not wait for the right to delete leases.
    fn tell_unremovable(&self, lease: &str, why: &str) {
        if !self.unremovable.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                namespace = self.namespace,
                lease,
                why,
                "cannot remove a stored CreateVolume whose end is known: the next process repeats the call, and makes a volume in vain if this one is deleted by then; grant delete on leases in this namespace"
            );
        }
    }

    /// Said once: upstream's provisioner never stores its calls, so that work goes on.
    pub(in super::super) fn tell_unstorable(&self, why: &str) {
        if !self.unstorable.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                namespace = self.namespace,
                why,
                "cannot store a CreateVolume before it is sent: if this process dies before the answer and the claim is deleted, the volume is left in the backend; grant get, list, create, update and delete on leases in this namespace"
            );
        }
    }
}

/// No right to store it, no namespace to store it in, or a driver whose name is no label: trying again does not help, and
/// the claim must not wait for it.
fn never_stored(error: &EffectError) -> bool {
    error.forbidden() || error.not_found() || error.code == 422
}
