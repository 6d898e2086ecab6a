//! The kinds of the server: all that references may name, and those whose objects can be collected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_machinery::EffectError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::discovery::v2::APIGroupDiscovery;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Api, Client};

use super::absent::Place;
use super::model::{Identity, Kind, Node};

/// What an object must allow for it to be collected.
const VERBS: [&str; 3] = ["delete", "list", "watch"];
/// Upstream looks past events: they are many, own nothing and expire.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];
/// Whose objects bring kinds and take them away.
const KIND_MAKERS: [(&str, &str); 2] =
    [("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")];

/// Discovery of a version that an aggregated server did not answer for.
const STALE: &str = "Stale";

/// All that is asked of objects, and answered.
pub(super) type Metadata = PartialObjectMeta<DynamicObject>;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kinds {
    /// By apiVersion and kind, in every version that is served.
    named: BTreeMap<(String, String), Arc<Kind>>,
    /// In the version that the server prefers, by group and plural.
    pub collectable: BTreeMap<(String, String), Arc<Kind>>,
    /// Groups and versions that are served elsewhere, do not answer, and of which nothing is known: they may hold dependents
    /// of any object.
    pub silent: BTreeSet<(String, String)>,
}

impl Kinds {
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.named.get(&(api_version.to_owned(), kind.to_owned()))
    }

    /// Where an owner is, if its kind is served. One without a namespace is found without that of its dependent.
    pub fn place(&self, dependent: &Identity, owner: &OwnerReference) -> Option<Place> {
        let kind = self.find(&owner.api_version, &owner.kind)?;
        let namespace = if kind.namespaced { dependent.namespace.clone() } else { String::new() };
        Some(Place { kind: kind.clone(), namespace, name: owner.name.clone(), uid: owner.uid.clone() })
    }

    /// Versions of a group come with the preferred one first. Of one that is served elsewhere and does not answer, the server
    /// cannot say what it has: that is as it was `before`, or its objects would count as gone.
    pub fn of(groups: Vec<APIGroupDiscovery>, before: &Self) -> Self {
        let mut kinds = Self::default();
        for group in groups {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for version in group.versions {
                let number = version.version.unwrap_or_default();
                let stale = version.freshness.as_deref() == Some(STALE) && version.resources.is_empty();
                if stale && !kinds.keep(&name, &number, before) {
                    kinds.silent.insert((name.clone(), number.clone()));
                }
                for resource in version.resources {
                    let response = resource.response_kind.and_then(|kind| kind.kind);
                    let (Some(kind), Some(plural)) = (response, resource.resource) else { continue };
                    let kind = Arc::new(Kind {
                        api_version: if name.is_empty() {
                            number.clone()
                        } else {
                            format!("{name}/{number}")
                        },
                        group: name.clone(),
                        version: number.clone(),
                        kind,
                        plural,
                        namespaced: resource.scope.as_deref() == Some("Namespaced"),
                    });
                    kinds.add(kind, &resource.verbs);
                }
            }
        }
        kinds
    }

    /// Takes over what was known of a version of a group. False if nothing was.
    fn keep(&mut self, group: &str, version: &str, before: &Self) -> bool {
        let same = |kind: &Arc<Kind>| kind.group == group && kind.version == version;
        for (name, kind) in before.named.iter().filter(|(_, kind)| same(kind)) {
            self.named.entry(name.clone()).or_insert_with(|| kind.clone());
        }
        for (table, kind) in before.collectable.iter().filter(|(_, kind)| same(kind)) {
            self.collectable.entry(table.clone()).or_insert_with(|| kind.clone());
        }
        before.named.values().any(same)
    }

    fn add(&mut self, kind: Arc<Kind>, verbs: &[String]) {
        let table = (kind.group.clone(), kind.plural.clone());
        let collectable = VERBS.iter().all(|verb| verbs.iter().any(|own| own == verb));
        let ignored = IGNORED.contains(&(&kind.group, &kind.plural));
        self.named.entry((kind.api_version.clone(), kind.kind.clone())).or_insert_with(|| kind.clone());
        if collectable && !ignored {
            self.collectable.entry(table).or_insert(kind);
        }
    }
}

/// Asks the server for its kinds; `before` are those that are known.
pub(super) async fn discover(client: &Client, before: &Kinds) -> Result<Kinds, EffectError> {
    let mut groups = client.list_core_api_versions_aggregated().await?.items;
    groups.extend(client.list_api_groups_aggregated().await?.items);
    Ok(Kinds::of(groups, before))
}

impl Kind {
    /// Whether a change of its objects may be a change of the kinds.
    pub(super) fn makes_kinds(&self) -> bool {
        KIND_MAKERS.contains(&(&self.group, &self.plural))
    }

    fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }

    /// Objects of this kind everywhere.
    pub(super) fn everywhere(&self, client: &Client) -> Api<Metadata> {
        Api::all_with(client.clone(), &self.resource())
    }

    /// Objects of this kind in a namespace; an empty one means none.
    pub(super) fn within(&self, client: &Client, namespace: &str) -> Api<Metadata> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client.clone(), namespace, &self.resource())
        } else {
            self.everywhere(client)
        }
    }
}

/// What metadata says of an object; `None` if it lacks what every stored object has.
pub(super) fn node(kind: &Arc<Kind>, metadata: ObjectMeta) -> Option<Node> {
    let identity = Identity {
        kind: kind.clone(),
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name?,
        uid: metadata.uid?.into(),
    };
    Some(Node {
        identity: Arc::new(identity),
        version: metadata.resource_version?.parse().ok()?,
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        owners: metadata.owner_references.unwrap_or_default(),
    })
}
