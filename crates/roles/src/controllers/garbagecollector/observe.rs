//! The graph first, which usually knows that all is well; then the API server, whose word alone lets anything go.

use std::sync::Arc;

use bowline_machinery::EffectError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;

use super::absent::Place;
use super::graph::Graph;
use super::kinds;
use super::model::{Dependents, Identity, Kind, Node, Observed, Owner, Referred, Stragglers};
use super::role::Collector;

/// Objects per page of a live list.
const PAGE: u32 = 500;

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
        self.shared.look(|graph| {
            let node = graph.get(uid)?;
            let guesses = node.owners.iter().map(|owner| guess(graph, &node.identity, owner)).collect();
            Some((node.clone(), graph.summary(uid), guesses))
        })
    }

    async fn owner(
        &self,
        dependent: &Arc<Identity>,
        reference: &OwnerReference,
        guess: &Guess,
    ) -> Result<Owner, EffectError> {
        let Some(place) = self.shared.kinds().place(dependent, reference) else {
            return Ok(Owner::UnknownKind);
        };
        if place.kind.namespaced && dependent.namespace.is_empty() {
            return Ok(Owner::Invalid);
        }
        if guess.solid {
            return Ok(Owner::Solid);
        }
        let gone = if guess.elsewhere { Owner::Elsewhere } else { Owner::Gone };
        if self.absent.contains(&place) {
            return Ok(gone);
        }
        let owner = self.live(&place).await?;
        Ok(if owner == Owner::Gone { gone } else { owner })
    }

    /// What the API server says of an owner.
    async fn live(&self, Place { kind, namespace, name, uid }: &Place) -> Result<Owner, EffectError> {
        let answer = kind.within(&self.shared.client, namespace).get(name).await;
        let found = match answer {
            Ok(object) => kinds::node(kind, object.metadata),
            Err(kube::Error::Api(status)) if speaks_of(&status, name) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(match found.filter(|found| *found.identity.uid == **uid) {
            None => Owner::Gone,
            Some(owner) if owner.orphaning() => Owner::Orphaning,
            Some(owner) if owner.in_foreground() => Owner::Foreground,
            Some(_) => Owner::Solid,
        })
    }

    /// Dependents that only a live list shows.
    async fn stragglers(&self, owner: &Identity) -> Result<Stragglers, EffectError> {
        let kinds = self.shared.kinds();
        let mut found = Vec::new();
        // An object without a namespace cannot have an owner that has one.
        let reach = |kind: &&Arc<Kind>| kind.namespaced || owner.namespace.is_empty();
        for kind in kinds.collectable.values().filter(reach) {
            let api = kind.within(&self.shared.client, &owner.namespace);
            let mut page = ListParams::default().limit(PAGE);
            loop {
                let list = api.list(&page).await?;
                let nodes = list.items.into_iter().filter_map(|object| kinds::node(kind, object.metadata));
                found.extend(nodes.filter(|node| node.refers_to(&owner.uid) && !node.deleting));
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(if found.is_empty() { Stragglers::None } else { Stragglers::Found(found) })
    }
}

fn guess(graph: &Graph, dependent: &Identity, reference: &OwnerReference) -> Guess {
    let Some(owner) = graph.get(&reference.uid) else {
        return Guess { solid: false, elsewhere: false };
    };
    let found = &owner.identity;
    let elsewhere = !found.namespace.is_empty() && found.namespace != dependent.namespace;
    let meant = !elsewhere && found.name == reference.name && is_kind(&found.kind, reference);
    Guess { solid: meant && !owner.waits(), elsewhere }
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
