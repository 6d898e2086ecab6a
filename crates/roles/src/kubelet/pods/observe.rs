//! A pod, its containers and its volumes as they are.

use std::collections::BTreeMap;

use bowline_api::{Meta, Node, ObjectKey, Pod, pod};

use super::model::{Observed, PodVolumes};
use super::role::Pods;
use super::spec::{self, Objects};
use crate::indexes::pod_with_uid;

impl Pods {
    /// `None` when the pod is neither in the API nor known here.
    pub(super) fn seen(&self, uid: &str) -> Option<Observed> {
        let pod = pod_with_uid(&self.pods, uid);
        if pod.is_none() && self.runtime.get(uid).is_none() {
            return None;
        }
        let (now, wall) = (self.ports.host.uptime.uptime(), self.ports.host.clock.now());
        let objects = self.follow(uid, pod.as_deref());
        let volumes = match &pod {
            Some(pod) => self.local.with(pod, self.mounts.ready(pod)),
            None => PodVolumes::Ready(BTreeMap::new()),
        };
        let problem = matches!(&volumes, PodVolumes::Waiting { problems, .. } if !problems.is_empty());
        let memory = self.runtime.update(uid, |memory| {
            memory.problem_since = problem.then(|| memory.problem_since.unwrap_or(now));
            memory.saw(pod.as_deref(), now, wall);
            memory.clone()
        });
        Some(Observed {
            uid: uid.to_owned(),
            now,
            wall,
            known_since: memory.known_since.unwrap_or(now),
            deleting_since: memory.deleting_since,
            active: memory.active,
            config: self.config.clone(),
            pod,
            attempts: memory.attempts,
            crashes: memory.crashes,
            volumes,
            objects,
            problem_since: memory.problem_since,
            told: memory.told,
            left: self.mounts.left(uid) || self.local.left(uid),
            inside: self.tenants.inside(uid),
            evicting: self.tenants.evicting(),
            directory: memory.directory,
        })
    }

    /// Watches exactly the objects that the variables of a living pod come from, and says what is known of them.
    pub(super) fn follow(&self, uid: &str, pod: Option<&Pod>) -> Objects {
        let living = pod.filter(|pod| !pod.deleting() && !pod::terminated(pod));
        let (maps, secrets) = living.map(spec::references).unwrap_or_default();
        let namespace = living.map(Meta::namespace).unwrap_or_default();
        let keys = |names: &[&str]| names.iter().map(|name| ObjectKey::new(namespace, *name)).collect();
        self.maps.follow(uid, &keys(&maps));
        self.secrets.follow(uid, &keys(&secrets));
        let key = |name: &str| ObjectKey::new(namespace, name);
        Objects {
            maps: maps.iter().map(|name| ((*name).to_owned(), self.maps.get(&key(name)))).collect(),
            secrets: secrets.iter().map(|name| ((*name).to_owned(), self.secrets.get(&key(name)))).collect(),
            node: self.ports.informers.of::<Node>().named(&self.config.node_name),
        }
    }
}
