//! Which node needs what: pods tie secrets, config maps, claims and accounts to nodes, volumes tie more secrets to
//! claims.

use std::collections::{BTreeMap, BTreeSet};

use bowline_api::{ObjectKey, keys};
use serde_json::Value;

use super::references;
use crate::auth::follow::Index;
use crate::store::Stored;

const TABLES: [&str; 4] =
    ["pods", "persistentvolumes", "volumeattachments.storage.k8s.io", "resourceslices.resource.k8s.io"];
/// Positions in the list above.
const POD: usize = 0;
const VOLUME: usize = 1;
const ATTACHMENT: usize = 2;

/// Things that belong to one node or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
    ResourceClaim,
    Volume,
    Attachment,
    Slice,
    Pod,
}

type Target = (Thing, ObjectKey);

#[derive(Default)]
pub struct Graph {
    pods: BTreeMap<ObjectKey, Pod>,
    /// For each thing, on which nodes how many pods need it.
    needed: BTreeMap<Target, BTreeMap<String, usize>>,
    volumes: BTreeMap<String, Volume>,
    /// Volumes that need a secret.
    by_secret: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Node of each attachment, and of each slice of devices.
    attachments: BTreeMap<String, String>,
    slices: BTreeMap<String, String>,
}

struct Pod {
    node: String,
    needs: Vec<Target>,
}

struct Volume {
    claim: ObjectKey,
    secrets: Vec<ObjectKey>,
}

impl Graph {
    /// Whether something is needed on a node.
    pub fn reaches(&self, node: &str, thing: Thing, key: &ObjectKey) -> bool {
        match thing {
            Thing::Pod => self.pods.get(key).is_some_and(|pod| pod.node == node),
            Thing::Attachment => self.attachments.get(&key.name).is_some_and(|of| of == node),
            Thing::Slice => self.slices.get(&key.name).is_some_and(|of| of == node),
            Thing::Volume => self.volume_reaches(node, &key.name),
            Thing::Secret => {
                let volumes = self.by_secret.get(key).into_iter().flatten();
                self.is_needed(node, thing, key)
                    || volumes.into_iter().any(|name| self.volume_reaches(node, name))
            }
            Thing::ConfigMap | Thing::Claim | Thing::ServiceAccount | Thing::ResourceClaim => {
                self.is_needed(node, thing, key)
            }
        }
    }

    fn is_needed(&self, node: &str, thing: Thing, key: &ObjectKey) -> bool {
        self.needed.get(&(thing, key.clone())).is_some_and(|nodes| nodes.contains_key(node))
    }

    fn volume_reaches(&self, node: &str, name: &str) -> bool {
        self.volumes.get(name).is_some_and(|volume| self.is_needed(node, Thing::Claim, &volume.claim))
    }

    fn put_pod(&mut self, key: &ObjectKey, object: &Value) {
        let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            return;
        }
        let needs = pod_needs(&key.namespace, object);
        for target in &needs {
            *self.needed.entry(target.clone()).or_default().entry(node.to_owned()).or_default() += 1;
        }
        self.pods.insert(key.clone(), Pod { node: node.to_owned(), needs });
    }

    fn remove_pod(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.remove(key) else { return };
        for target in pod.needs {
            let Some(nodes) = self.needed.get_mut(&target) else { continue };
            if let Some(count) = nodes.get_mut(&pod.node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(&pod.node);
                }
            }
            if nodes.is_empty() {
                self.needed.remove(&target);
            }
        }
    }

    /// Only a volume that a claim has is anybody's business.
    fn put_volume(&mut self, name: &str, object: &Value) {
        let claim = &object["spec"]["claimRef"];
        let text = |field: &str| claim[field].as_str().unwrap_or_default();
        if !claim.is_object() {
            return;
        }
        let claim = ObjectKey::new(text("namespace"), text("name"));
        let secrets: Vec<ObjectKey> = references::volume_secrets(object)
            .into_iter()
            .map(|(namespace, name)| ObjectKey::new(namespace, name))
            .collect();
        for secret in &secrets {
            self.by_secret.entry(secret.clone()).or_default().insert(name.to_owned());
        }
        self.volumes.insert(name.to_owned(), Volume { claim, secrets });
    }

    fn remove_volume(&mut self, name: &str) {
        for secret in self.volumes.remove(name).into_iter().flat_map(|volume| volume.secrets) {
            if let Some(volumes) = self.by_secret.get_mut(&secret) {
                volumes.remove(name);
                if volumes.is_empty() {
                    self.by_secret.remove(&secret);
                }
            }
        }
    }
}

impl Index for Graph {
    const TABLES: &'static [&'static str] = &TABLES;

    fn put(&mut self, table: usize, object: &Stored) {
        self.remove(table, &object.key);
        let value = object.value();
        match table {
            POD => self.put_pod(&object.key, &value),
            VOLUME => self.put_volume(&object.key.name, &value),
            _ => {
                let node = value["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
                let of = if table == ATTACHMENT { &mut self.attachments } else { &mut self.slices };
                of.insert(object.key.name.clone(), node);
            }
        }
    }

    fn remove(&mut self, table: usize, key: &ObjectKey) {
        match table {
            POD => self.remove_pod(key),
            VOLUME => self.remove_volume(&key.name),
            _ => {
                let of = if table == ATTACHMENT { &mut self.attachments } else { &mut self.slices };
                of.remove(&key.name);
            }
        }
    }
}

/// A mirror pod is the kubelet's own doing, so it opens nothing to it.
fn pod_needs(namespace: &str, pod: &Value) -> Vec<Target> {
    if pod["metadata"]["annotations"].get(keys::MIRROR_POD).is_some() {
        return Vec::new();
    }
    let account =
        pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    let resource_claims = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
    let resource_claims = resource_claims.filter_map(|status| status["resourceClaimName"].as_str());
    let named_claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let named_claims = named_claims.filter_map(|claim| claim["resourceClaimName"].as_str());
    let extended = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str();
    let claims = resource_claims.chain(named_claims).chain(extended).map(str::to_owned).collect();
    let things: [(Thing, BTreeSet<String>); 5] = [
        (Thing::ServiceAccount, account.into_iter().collect()),
        (Thing::Secret, references::secrets(pod)),
        (Thing::ConfigMap, references::config_maps(pod)),
        (Thing::Claim, references::claims(pod)),
        (Thing::ResourceClaim, claims),
    ];
    let keyed = |(thing, names): (Thing, BTreeSet<String>)| {
        names.into_iter().map(move |name| (thing, ObjectKey::new(namespace, name)))
    };
    things.into_iter().flat_map(keyed).collect()
}
