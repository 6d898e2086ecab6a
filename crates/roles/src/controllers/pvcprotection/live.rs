//! What the API server itself says about pods, shared by all claims of a namespace that ask at the same time.
//!
//! A list costs as much as there are pods, so a thousand claims that are deleted together must not ask a thousand
//! times. An answer is good for everybody who asked before its list began. It is kept only while one of them waits for it, so
//! nothing is remembered from one look to the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_api::Pod;
use bowline_machinery::{EffectError, Effects};

use super::decide::used_by;

/// Claim to the first pod that uses it, in one namespace.
pub(super) type Users = BTreeMap<String, Arc<Pod>>;

pub(super) struct Live {
    effects: Effects,
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
    pub fn new(effects: Effects) -> Self {
        Self { effects, namespaces: Mutex::default() }
    }

    /// Users of claims in a namespace, from a list that began after this call did.
    pub async fn users(&self, namespace: &str) -> Result<Arc<Users>, EffectError> {
        let shared = self.namespace(namespace);
        let users = self.ask(namespace, &shared).await;
        let mut all = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        // The map and this call hold it: no other call waits for its answer.
        if Arc::strong_count(&shared) == 2 {
            all.remove(namespace);
        }
        users
    }

    async fn ask(&self, namespace: &str, shared: &Namespace) -> Result<Arc<Users>, EffectError> {
        let question = shared.ask();
        let mut last = shared.last.lock().await;
        if let Some(answer) = last.as_ref().filter(|answer| answer.covers >= question) {
            return Ok(answer.users.clone());
        }
        // Neighbours that are ready to ask do so now, before the list begins that will answer them too.
        tokio::task::yield_now().await;
        let covers = shared.asked();
        let users = Arc::new(users_of(self.effects.list_live(namespace).await?));
        *last = Some(Answer { covers, users: users.clone() });
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

pub(super) fn users_of(pods: Vec<Pod>) -> Users {
    let mut users = Users::new();
    for pod in pods.into_iter().map(Arc::new) {
        for claim in used_by(&pod) {
            users.entry(claim).or_insert_with(|| pod.clone());
        }
    }
    users
}
