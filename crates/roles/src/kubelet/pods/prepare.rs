//! What is remembered of a pod before it is looked at: since when things are as they are, and which objects it needs.

use bowline_api::{Meta, ObjectKey, Pod};

use super::observe::living;
use super::role::Pods;
use super::spec;
use crate::indexes::pod_with_uid;

impl Pods {
    pub(super) fn remember(&self, uid: &str) {
        let pod = pod_with_uid(&self.pods, uid);
        if pod.is_none() && self.runtime.get(uid).is_none() {
            return;
        }
        let (now, wall) = self.now();
        self.follow(uid, living(pod.as_deref()));
        let volumes = self.volumes(pod.as_deref());
        self.runtime.update(uid, |memory| memory.saw(pod.as_deref(), &volumes, now, wall));
    }

    /// Watches exactly the objects that the variables of a living pod come from.
    pub(super) fn follow(&self, uid: &str, living: Option<&Pod>) {
        let (maps, secrets) = living.map(spec::references).unwrap_or_default();
        let namespace = living.map(Meta::namespace).unwrap_or_default();
        let keys = |names: &[&str]| names.iter().map(|name| ObjectKey::new(namespace, *name)).collect();
        self.maps.follow(uid, &keys(&maps));
        self.secrets.follow(uid, &keys(&secrets));
    }
}
