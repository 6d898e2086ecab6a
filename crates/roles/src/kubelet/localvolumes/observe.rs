//! From the caches, the watches and the memory to what is decided on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{Meta, ObjectKey, Pod, pod};
use bowline_machinery::Found;

use super::model::{Observed, State, Want};
use super::payload::{self, Entries, Files};
use super::plan::{self, ObjectKind, Plan, Source};
use super::role::Manager;
use crate::indexes::pod_with_uid;

/// The queue's name of a volume.
pub fn key(uid: &str, name: &str) -> String {
    format!("{uid}/{name}")
}

impl Manager {
    /// `None` when the volume is neither remembered as wanted nor here.
    pub(super) fn seen(&self, key: &str) -> Option<Observed> {
        let (uid, name) = key.split_once('/')?;
        let state = self.memory.get(uid, name)?;
        let asked = self.asked(uid, name);
        let want = self.want(uid, asked.as_ref().map(|(pod, _)| pod.as_ref()));
        let files = match &asked {
            Some((pod, plan)) if want == Want::Ready => self.files(pod, plan, &state),
            _ => Files::Looking,
        };
        Some(Observed {
            uid: uid.to_owned(),
            name: name.to_owned(),
            now: self.ports.host.uptime.uptime(),
            want,
            may_remove: self.tenants.counted(),
            asked,
            files,
            state,
        })
    }

    /// The pod, and what it says of the volume.
    pub(super) fn asked(&self, uid: &str, name: &str) -> Option<(Arc<Pod>, Plan)> {
        let pod = self.pod(uid)?;
        let plan = plan::of_pod(&pod).find(|(found, _)| *found == name)?.1;
        Some((pod, plan))
    }

    fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        pod_with_uid(&self.pods, uid)
    }

    /// As long as a container may run, nothing is taken from it.
    pub(super) fn want(&self, uid: &str, pod: Option<&Pod>) -> Want {
        let lives = pod.is_some_and(|pod| !pod.deleting() && !pod::terminated(pod));
        match (lives, self.tenants.inside(uid)) {
            (true, true) if self.tenants.evicting() => Want::AsItIs,
            (true, false) if self.tenants.evicting() => Want::Unmounted,
            (true, _) => Want::Ready,
            (false, true) => Want::AsItIs,
            (false, false) => Want::Gone,
        }
    }

    fn files(&self, pod: &Pod, plan: &Plan, state: &State) -> Files {
        let sources = plan.sources.as_deref().unwrap_or_default();
        let node = self.nodes.named(&self.node_name);
        let objects = self.objects(sources, pod.namespace());
        let world = payload::World { pod, node: node.as_deref(), objects: &objects, tokens: &state.tokens };
        payload::collect(sources, &world)
    }

    fn objects(&self, sources: &[Source], namespace: &str) -> BTreeMap<(ObjectKind, String), Found<Entries>> {
        let mut objects = BTreeMap::new();
        for source in sources {
            let Source::Object { kind, name, .. } = source else { continue };
            let key = ObjectKey::new(namespace, name);
            let found = match kind {
                ObjectKind::ConfigMap => entries(self.maps.get(&key), payload::entries_of_map),
                ObjectKind::Secret => entries(self.secrets.get(&key), payload::entries_of_secret),
            };
            objects.insert((*kind, name.clone()), found);
        }
        objects
    }
}

fn entries<K>(found: Found<Arc<K>>, read: impl Fn(&K) -> Entries) -> Found<Entries> {
    match found {
        Found::Unknown => Found::Unknown,
        Found::Absent => Found::Absent,
        Found::Present(object) => Found::Present(read(&object)),
    }
}
