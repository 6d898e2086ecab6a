//! Claims and volumes of the pods of this node. A node may read them one by one and watch none.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, expansion, volume};
use bowline_machinery::{Cache, Fetched, Found, Ports};

use super::desired::{self, Claimed, Resolved};
use crate::indexes::pod_with_uid;

/// What pods ask for, each followed by the pod's UID; clones share it.
#[derive(Clone)]
pub struct Sources {
    pods: Cache<Pod>,
    claims: Fetched<PersistentVolumeClaim>,
    volumes: Fetched<PersistentVolume>,
    turn: Arc<Mutex<()>>,
}

/// Whether nothing of a claim is waited for any more: its phase is written last.
fn settled(claim: &PersistentVolumeClaim) -> bool {
    let bound = volume::bound(claim) && volume::claim_phase(claim) == "Bound" && !claim.deleting();
    bound && !resizes(claim)
}

/// Whether a larger size is asked for and may soon be there. What is infeasible changes rarely.
fn resizes(claim: &PersistentVolumeClaim) -> bool {
    match expansion::resize_status(claim) {
        expansion::CONTROLLER_RESIZE_INFEASIBLE | expansion::NODE_RESIZE_INFEASIBLE => false,
        "" => {
            let promised = volume::promised_bytes(claim);
            promised > 0 && volume::requested_bytes(claim).is_ok_and(|requested| requested > promised)
        }
        _ => true,
    }
}

impl Sources {
    /// `pods` has an index by UID.
    pub fn new(ports: &Ports, pods: Cache<Pod>) -> Self {
        let claims = Fetched::new(ports, settled);
        let volumes =
            Fetched::new(ports, |pv| volume::claim_ref(pv).is_some_and(|claim| claim.uid.is_some()));
        Self { pods, claims, volumes, turn: Arc::default() }
    }

    /// The claims that are followed.
    pub fn claims(&self) -> &Cache<PersistentVolumeClaim> {
        self.claims.cache()
    }

    /// The volumes that are followed.
    pub fn volumes(&self) -> &Cache<PersistentVolume> {
        self.volumes.cache()
    }

    /// Calls `handler` with the UID of a pod whose claims or volumes have changed.
    pub fn on_change(&self, handler: impl Fn(&str) + Clone + Send + Sync + 'static) {
        let (sources, wake) = (self.clone(), handler.clone());
        self.claims.on_change(move |uid| {
            sources.follow(uid);
            sources.refresh_volumes(uid);
            wake(uid);
        });
        self.volumes.on_change(handler);
    }

    /// Follows the claims of a pod as long as it is in the API, and the volumes that they name.
    pub fn follow(&self, uid: &str) {
        // One at a time: an older view of the claims must not replace a newer one.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pod) = pod_with_uid(&self.pods, uid) else {
            self.claims.follow(uid, &BTreeSet::new());
            self.volumes.follow(uid, &BTreeSet::new());
            return;
        };
        let claims = claims_of(&pod);
        self.claims.follow(uid, &claims);
        let volumes = claims.iter().filter_map(|key| match self.claims.get(uid, key) {
            Found::Present(claim) => Some(volume::claim_volume(&claim).to_owned()),
            Found::Absent | Found::Unknown => None,
        });
        let volumes = volumes.filter(|name| !name.is_empty()).map(ObjectKey::cluster);
        self.volumes.follow(uid, &volumes.collect());
    }

    /// Reads the claims of a pod again, as upstream does whenever a pod is synced.
    pub fn refresh(&self, pod: &Pod) {
        claims_of(pod).iter().for_each(|key| self.claims.refresh(key));
    }

    /// A claim that changed while its size differs from its volume's: the volume may have changed just before it.
    fn refresh_volumes(&self, uid: &str) {
        let Some(pod) = pod_with_uid(&self.pods, uid) else { return };
        for key in claims_of(&pod) {
            let Found::Present(claim) = self.claims.get(uid, &key) else { continue };
            let name = ObjectKey::cluster(volume::claim_volume(&claim));
            let Found::Present(pv) = self.volumes.get(uid, &name) else { continue };
            let promised = volume::promised_bytes(&claim);
            if resizes(&claim) || volume::capacity_bytes(&pv) != Ok(promised) {
                self.volumes.refresh(&name);
            }
        }
    }

    /// Waits until all that the pods of now ask for has been looked up once.
    pub async fn looked_up(&self) {
        let uids: Vec<String> = self.pods.list().iter().map(|pod| pod.uid().to_owned()).collect();
        uids.iter().for_each(|uid| self.follow(uid));
        for uid in &uids {
            self.claims.answered(uid).await;
            self.follow(uid);
        }
        for uid in &uids {
            self.volumes.answered(uid).await;
        }
    }

    pub fn resolve(&self, pod: &Pod, wanted: &Claimed) -> Result<Resolved, String> {
        let key = ObjectKey::new(pod.namespace(), &wanted.claim_name);
        let claim = match self.claims.get(pod.uid(), &key) {
            Found::Present(claim) => Some(claim),
            Found::Absent => None,
            Found::Unknown => return Err(unanswered(&key, "PVC", &key.to_string())),
        };
        let name = claim.as_ref().map(|claim| volume::claim_volume(claim)).unwrap_or_default();
        let pv = match self.volumes.get(pod.uid(), &ObjectKey::cluster(name)) {
            Found::Present(pv) => Some(pv),
            Found::Absent => None,
            Found::Unknown if name.is_empty() => None,
            Found::Unknown => return Err(unanswered(&key, "PV", name)),
        };
        desired::resolve(pod, wanted, claim.as_deref(), pv.as_deref())
    }
}

fn unanswered(claim: &ObjectKey, kind: &str, name: &str) -> String {
    format!("error processing PVC {claim}: failed to fetch {kind} {name} from API server: no answer yet")
}

fn claims_of(pod: &Pod) -> BTreeSet<ObjectKey> {
    let names = desired::claimed(pod).into_iter().map(|claimed| claimed.claim_name);
    names.map(|name| ObjectKey::new(pod.namespace(), name)).collect()
}
