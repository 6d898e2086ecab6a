//! What is remembered of a volume before it is looked at: that it is wanted, and which objects it is made of.

use std::collections::BTreeSet;

use bowline_api::{Meta, ObjectKey};

use super::model::Want;
use super::plan::{ObjectKind, Source};
use super::role::Manager;

impl Manager {
    pub(super) fn remember(&self, key: &str) {
        let Some((uid, name)) = key.split_once('/') else { return };
        let known = self.memory.get(uid, name).is_some();
        if !known {
            let Some((pod, plan)) = self.asked(uid, name) else { return };
            if self.want(uid, Some(&pod)) != Want::Ready {
                return;
            }
            // Remembered, and only then is the pod looked at: a part that takes it away after that look sees this, too.
            self.memory.expect(uid, name, plan.plugin);
        }
        let asked = self.asked(uid, name);
        let ready = asked.filter(|(pod, _)| self.want(uid, Some(pod)) == Want::Ready);
        match &ready {
            Some((pod, plan)) => {
                self.follow(key, plan.sources.as_deref().unwrap_or_default(), pod.namespace());
            }
            None => {
                if !known {
                    self.memory.forget(uid, name);
                }
                self.follow(key, &[], "");
            }
        }
    }

    /// From now on changes of exactly these objects concern the volume.
    fn follow(&self, key: &str, sources: &[Source], namespace: &str) {
        let named = |wanted: ObjectKind| -> BTreeSet<ObjectKey> {
            let names = sources.iter().filter_map(|source| match source {
                Source::Object { kind, name, .. } if *kind == wanted => Some(ObjectKey::new(namespace, name)),
                _ => None,
            });
            names.collect()
        };
        self.maps.follow(key, &named(ObjectKind::ConfigMap));
        self.secrets.follow(key, &named(ObjectKind::Secret));
    }
}
