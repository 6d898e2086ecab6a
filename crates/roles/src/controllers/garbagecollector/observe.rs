//! The graph first, which usually knows that all is well; then the API server, whose word alone lets anything go.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_machinery::EffectError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;

use super::kinds;
use super::model::{Dependents, Identity, Kind, Node, Observed, Owner, Referred, Stragglers};
use super::role::Collector;

/// Objects per page of a live list.
const PAGE: u32 = 500;
/// Owners that are known to be gone. Losing one costs a question.
const ABSENT_MAX: usize = 4096;

/// Where a reference points to, and whom it means there.
pub(super) type Place = (Arc<Kind>, String, String, String);

/// A UID never comes back, so an absence that the API server confirmed stays true.
pub(super) type Absent = Mutex<BTreeSet<Place>>;

/// What the graph knows of an owner.
struct Guess {
    /// It is there and stays, as far as the watches know.
    solid: bool,
    /// An object of that UID is in another namespace.
    elsewhere: bool,
}

impl Collector {
    pub(super) async fn see(&self, key: &Arc<Identity>) -> Result<Option<Observed>, EffectError> {
        let Some((node, dependents, guesses)) = self.known(&key.uid) else { return Ok(None) };
        let complete = self.shared.complete();
        let mut owners = Vec::new();
        if !node.deleting {
            for (reference, guess) in node.owners.iter().zip(guesses) {
                let owner = self.owner(&node.identity, reference, &guess).await?;
                owners.push(Referred { reference: reference.clone(), owner });
            }
        }
        let stragglers = if node.orphaning() && dependents.staying == 0 && complete {
            self.stragglers(&node.identity).await?
        } else {
            Stragglers::Unasked
        };
        Ok(Some(Observed { node, owners, dependents, complete, stragglers }))
    }

    fn known(&self, uid: &str) -> Option<(Node, Dependents, Vec<Guess>)> {
        let graph = self.shared.graph();
        let node = graph.get(uid)?;
        let guess = |reference: &OwnerReference| {
            let own = &node.identity;
            let Some(owner) = graph.get(&reference.uid) else {
                return Guess { solid: false, elsewhere: false };
            };
            let found = &owner.identity;
            let elsewhere = !found.namespace.is_empty() && found.namespace != own.namespace;
            let meant = !elsewhere && found.name == reference.name && is_kind(&found.kind, reference);
            Guess { solid: meant && !owner.waits(), elsewhere }
        };
        let guesses = node.owners.iter().map(guess).collect();
        Some((node.clone(), graph.summary(uid), guesses))
    }

    async fn owner(
        &self,
        dependent: &Arc<Identity>,
        reference: &OwnerReference,
        guess: &Guess,
    ) -> Result<Owner, EffectError> {
        let kinds = self.shared.kinds();
        let Some(kind) = kinds.find(&reference.api_version, &reference.kind) else {
            self.shared.awaits_kind(dependent);
            return Ok(Owner::UnknownKind);
        };
        if kind.namespaced && dependent.namespace.is_empty() {
            return Ok(Owner::Invalid);
        }
        if guess.solid {
            return Ok(Owner::Solid);
        }
        let namespace = if kind.namespaced { dependent.namespace.as_str() } else { "" };
        let owner = self.live(kind, namespace, reference).await?;
        Ok(if owner == Owner::Gone && guess.elsewhere { Owner::Elsewhere } else { owner })
    }

    /// What the API server says of an owner.
    async fn live(
        &self,
        kind: &Arc<Kind>,
        namespace: &str,
        reference: &OwnerReference,
    ) -> Result<Owner, EffectError> {
        let place: Place =
            (kind.clone(), namespace.to_owned(), reference.name.clone(), reference.uid.clone());
        if self.absent().contains(&place) {
            return Ok(Owner::Gone);
        }
        let answer = kind.within(&self.shared.client, namespace).get(&reference.name).await;
        let found = match answer {
            Ok(object) => kinds::node(kind, object.metadata),
            Err(kube::Error::Api(status)) if speaks_of(&status, &reference.name) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(match found.filter(|found| *found.identity.uid == *reference.uid) {
            None => {
                self.note_absent(place);
                Owner::Gone
            }
            Some(owner) if owner.orphaning() => Owner::Orphaning,
            Some(owner) if owner.in_foreground() => Owner::Foreground,
            Some(_) => Owner::Solid,
        })
    }

    /// Dependents that only a live list shows. They join the graph, which gives each of them its turn.
    async fn stragglers(&self, owner: &Identity) -> Result<Stragglers, EffectError> {
        let kinds = self.shared.kinds();
        let mut found = 0;
        // An object without a namespace cannot have an owner that has one.
        let reach = |kind: &&Arc<Kind>| kind.namespaced || owner.namespace.is_empty();
        for kind in kinds.collectable.values().filter(reach) {
            let api = kind.within(&self.shared.client, &owner.namespace);
            let mut page = ListParams::default().limit(PAGE);
            loop {
                let list = api.list(&page).await?;
                let nodes = list.items.into_iter().filter_map(|object| kinds::node(kind, object.metadata));
                for node in nodes.filter(|node| node.refers_to(&owner.uid) && !node.deleting) {
                    found += 1;
                    let woken = self.shared.graph().put(node);
                    self.shared.wake(woken);
                }
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(if found == 0 { Stragglers::None } else { Stragglers::Found(found) })
    }

    fn absent(&self) -> std::sync::MutexGuard<'_, BTreeSet<Place>> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_absent(&self, place: Place) {
        let mut absent = self.absent();
        if absent.len() >= ABSENT_MAX {
            absent.pop_first();
        }
        absent.insert(place);
    }
}

/// A reference may name any version of a kind; the watches use the preferred one.
fn is_kind(found: &Kind, reference: &OwnerReference) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    found.group == group && found.kind == reference.kind
}

/// Whether a 404 is about this object. One about the whole resource says nothing of its objects.
fn speaks_of(status: &kube::core::Status, name: &str) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
}
