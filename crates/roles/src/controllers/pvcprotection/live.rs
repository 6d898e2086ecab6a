//! What the API server itself says about pods, shared by all claims of a namespace that ask at the same time.
//!
//! A list costs as much as there are pods, so a thousand claims that are deleted together must not ask a thousand
//! times. An answer is good for everybody who asked before its list began.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_api::{Meta, Pod};
use bowline_machinery::{Cache, EffectError, Effects};

use super::decide::used_by;

/// Claim to the first pod that uses it, in one namespace.
pub(super) type Users = BTreeMap<String, String>;

pub(super) struct Live {
    effects: Effects,
    pods: Cache<Pod>,
    namespaces: Mutex<BTreeMap<String, Arc<Namespace>>>,
}

#[derive(Default)]
struct Namespace {
    /// Questions so far; the number of a question is its place.
    asked: Mutex<u64>,
    /// Held while a list is under way, so that whoever comes meanwhile waits for the next one and shares it.
    last: tokio::sync::Mutex<Option<Answer>>,
}

struct Answer {
    /// The newest question that was asked before the list began.
    covers: u64,
    users: Arc<Users>,
}

impl Live {
    pub fn new(effects: Effects, pods: Cache<Pod>) -> Self {
        Self { effects, pods, namespaces: Mutex::default() }
    }

    /// Users of claims in a namespace, from a list that began after this call did.
    pub async fn users(&self, namespace: &str) -> Result<Arc<Users>, EffectError> {
        let shared = self.namespace(namespace);
        let question = shared.ask();
        let mut last = shared.last.lock().await;
        if let Some(answer) = last.as_ref().filter(|answer| answer.covers >= question) {
            return Ok(answer.users.clone());
        }
        // Neighbours that are ready to ask do so now, before the list begins that will answer them too.
        tokio::task::yield_now().await;
        let covers = shared.asked();
        let pods: Vec<Pod> = self.effects.list_live(namespace).await?;
        let users = Arc::new(users_of(&pods));
        *last = Some(Answer { covers, users: users.clone() });
        // A pod that the cache has not heard of yet: told now, so that its end is news and wakes the claim.
        pods.into_iter().filter(|pod| !used_by(pod).is_empty()).for_each(|pod| self.pods.note(pod));
        Ok(users)
    }

    fn namespace(&self, name: &str) -> Arc<Namespace> {
        let mut all = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name.to_owned()).or_default().clone()
    }
}

impl Namespace {
    fn ask(&self) -> u64 {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked += 1;
        *asked
    }

    fn asked(&self) -> u64 {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn users_of(pods: &[Pod]) -> Users {
    let mut users = Users::new();
    for pod in pods {
        for claim in used_by(pod) {
            users.entry(claim).or_insert_with(|| pod.name().to_owned());
        }
    }
    users
}
