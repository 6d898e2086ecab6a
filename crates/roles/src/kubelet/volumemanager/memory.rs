//! The volumes that are here, or may be: what this process did and what it found at start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_machinery::listeners::Listeners;

use super::model::{Expanded, Mode, Presence, Staging, Target};
use super::tokens::ServiceAccountToken;
use crate::kubelet::Reported;

#[derive(Debug, Clone, Default)]
pub struct VolumeState {
    pub driver: String,
    pub handle: String,
    pub stages: BTreeMap<Staging, Presence>,
    pub mounts: BTreeMap<Target, MountState>,
    pub driver_missing_since: Option<Duration>,
    /// What the node was last told about it.
    pub reported: Option<Reported>,
    pub size: SizeState,
}

/// What is known of a volume's size; a restart learns it from the claim.
#[derive(Debug, Clone, Default)]
pub struct SizeState {
    /// Bytes; 0 while nothing is known.
    pub known: i64,
    pub in_use_error: bool,
    pub ended: Option<Expanded>,
    pub failures: u32,
    /// What the claim asked for when the last final error came.
    pub failed_request: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct MountState {
    pub mode: Mode,
    pub presence: Presence,
    pub failures: u32,
    /// Since when it is wanted and not there.
    pub since: Option<Duration>,
    pub reported: Option<Reported>,
    /// When the driver is to be told of the pod again.
    pub republish_at: Option<Duration>,
    /// When the attachment was last looked at because it does not come.
    pub limit_checked: Option<Duration>,
    /// The driver has said that it can attach no more volumes here.
    pub attach_limit: Option<String>,
    pub tokens: BTreeMap<String, ServiceAccountToken>,
    /// When the driver was first called for the mount that is being made.
    mounting_since: Option<Duration>,
}

impl MountState {
    fn new(mode: Mode, presence: Presence) -> Self {
        Self {
            mode,
            presence,
            failures: 0,
            since: None,
            reported: None,
            republish_at: None,
            limit_checked: None,
            attach_limit: None,
            tokens: BTreeMap::new(),
            mounting_since: None,
        }
    }
}

impl VolumeState {
    /// Nothing of it is on this machine, as far as we know.
    pub fn absent(&self) -> bool {
        self.mounts.values().all(|m| m.presence == Presence::Absent)
            && self.stages.values().all(|p| *p == Presence::Absent)
    }
}

/// Clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    listeners: Listeners<str>,
}

#[derive(Default)]
struct State {
    volumes: BTreeMap<String, VolumeState>,
    /// Volumes that a pod has mounted, or may have.
    by_pod: BTreeMap<String, BTreeSet<String>>,
    /// Mounts of pods whose volume cannot be worked out: nobody can take them down but a person.
    stuck: BTreeMap<String, BTreeSet<PathBuf>>,
}

impl Memory {
    pub fn get(&self, volume: &str) -> Option<VolumeState> {
        self.state().volumes.get(volume).cloned()
    }

    pub fn names(&self) -> Vec<String> {
        self.state().volumes.keys().cloned().collect()
    }

    pub fn of_driver(&self, driver: &str) -> Vec<String> {
        let state = self.state();
        state.volumes.iter().filter(|(_, v)| v.driver == driver).map(|(name, _)| name.clone()).collect()
    }

    /// Volumes that a pod has mounted, or may have.
    pub fn of_pod(&self, uid: &str) -> Vec<String> {
        self.state().by_pod.get(uid).into_iter().flatten().cloned().collect()
    }

    /// A mount of a pod that belongs to no volume we know of.
    pub fn add_stuck(&self, uid: &str, mount: PathBuf) {
        self.state().stuck.entry(uid.to_owned()).or_default().insert(mount);
    }

    /// The mount is gone.
    pub fn remove_stuck(&self, uid: &str, mount: &Path) {
        {
            let mut state = self.state();
            let Some(mounts) = state.stuck.get_mut(uid) else { return };
            mounts.remove(mount);
            if mounts.is_empty() {
                state.stuck.remove(uid);
            }
        }
        self.changed(uid);
    }

    pub fn stuck(&self) -> Vec<(String, PathBuf)> {
        let state = self.state();
        let all = state.stuck.iter().flat_map(|(uid, mounts)| mounts.iter().map(move |m| (uid, m)));
        all.map(|(uid, mount)| (uid.clone(), mount.clone())).collect()
    }

    /// Whether a publication is known, or its mount is known to lead nowhere.
    pub fn knows_mount(&self, target: &Target, mount: &Path) -> bool {
        let state = self.state();
        let held = |v: &VolumeState| v.mounts.get(target).is_some_and(|m| m.presence != Presence::Absent);
        let stuck = state.stuck.get(&target.pod_uid).is_some_and(|mounts| mounts.contains(mount));
        stuck || state.volumes.values().any(held)
    }

    /// Whether something of a pod is mounted, or may be.
    pub fn left(&self, uid: &str) -> bool {
        let state = self.state();
        state.by_pod.contains_key(uid) || state.stuck.contains_key(uid)
    }

    pub fn presence(&self, volume: &str, target: &Target) -> Presence {
        let state = self.state();
        let mount = state.volumes.get(volume).and_then(|v| v.mounts.get(target));
        mount.map(|m| m.presence).unwrap_or_default()
    }

    /// Calls `handler` with the UID of a pod whenever one of its mounts changes.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.listeners.add(handler);
    }

    /// Tells those who wait for a pod's volumes.
    pub fn changed(&self, uid: &str) {
        self.inner.listeners.tell(uid);
    }

    /// Remembers who wants a volume, so that it is looked at when its driver comes; drops what is neither wanted
    /// nor there.
    pub fn expect(&self, volume: &str, driver: &str, handle: &str, wanted: &BTreeMap<Target, Mode>) {
        let mut state = self.state();
        if wanted.is_empty() && !state.volumes.contains_key(volume) {
            return;
        }
        let entry = state.volumes.entry(volume.to_owned()).or_default();
        (entry.driver, entry.handle) = (driver.to_owned(), handle.to_owned());
        entry.mounts.retain(|t, m| m.presence != Presence::Absent || wanted.contains_key(t));
        for (target, mode) in wanted {
            let fresh = || MountState::new(*mode, Presence::Absent);
            entry.mounts.entry(target.clone()).or_insert_with(fresh);
        }
    }

    /// A volume that an earlier process left.
    pub fn found(&self, volume: &str, driver: &str, handle: &str) {
        let mut state = self.state();
        let entry = state.volumes.entry(volume.to_owned()).or_default();
        (entry.driver, entry.handle) = (driver.to_owned(), handle.to_owned());
    }

    /// Changes what is known about a volume, if it is known.
    pub fn update<T>(&self, volume: &str, change: impl FnOnce(&mut VolumeState) -> T) -> Option<T> {
        self.state().volumes.get_mut(volume).map(change)
    }

    pub fn set_stage(&self, volume: &str, staging: &Staging, presence: Presence) {
        self.update(volume, |v| {
            v.stages.insert(staging.clone(), presence);
            if v.stages.values().all(|p| *p == Presence::Absent) {
                v.stages.clear();
            }
        });
        // Whoever waits for a clean machine looks again; no pod is concerned.
        self.changed("");
    }

    pub fn set_mount(&self, volume: &str, target: &Target, mode: Mode, presence: Presence) {
        {
            let mut state = self.state();
            let Some(entry) = state.volumes.get_mut(volume) else { return };
            let fresh = || MountState::new(mode, presence);
            entry.mounts.entry(target.clone()).or_insert_with(fresh).presence = presence;
            let held = entry
                .mounts
                .iter()
                .any(|(t, m)| t.pod_uid == target.pod_uid && m.presence != Presence::Absent);
            let of_pod = state.by_pod.entry(target.pod_uid.clone()).or_default();
            if held {
                of_pod.insert(volume.to_owned());
            } else {
                of_pod.remove(volume);
            }
            if of_pod.is_empty() {
                state.by_pod.remove(&target.pod_uid);
            }
        }
        self.changed(&target.pod_uid);
    }

    /// Remembers since when the volume's driver is missing; forgotten when it is not.
    pub fn driver_missing(&self, volume: &str, missing: bool, now: Duration) {
        self.update(volume, |v| {
            v.driver_missing_since = missing.then(|| v.driver_missing_since.unwrap_or(now));
        });
    }

    /// Remembers since when a publication is waited for; forgotten when it is not.
    pub fn waits(&self, volume: &str, target: &Target, waits: bool, now: Duration) {
        self.update(volume, |v| {
            let Some(mount) = v.mounts.get_mut(target) else { return };
            mount.since = waits.then(|| mount.since.unwrap_or(now));
            if !waits {
                mount.reported = None;
            }
        });
    }

    /// Before anything is expanded, the volume has what its claim was promised.
    pub fn seed_size(&self, volume: &str, promised: i64) {
        self.update(volume, |v| {
            if v.size.known == 0 {
                v.size.known = promised;
            }
        });
    }

    /// What a pod's driver shows it is shown again, if the driver asks for that.
    pub fn republish_at_once(&self, volume: &str, pod_uid: &str, now: Duration) {
        self.update(volume, |v| {
            for (_, mount) in v.mounts.iter_mut().filter(|(target, _)| target.pod_uid == pod_uid) {
                mount.republish_at = mount.republish_at.map(|_| now);
            }
        });
    }

    pub fn set_republish(&self, volume: &str, target: &Target, at: Option<Duration>) {
        self.update(volume, |v| {
            if let Some(mount) = v.mounts.get_mut(target) {
                mount.republish_at = at;
            }
        });
    }

    pub fn attach_limit(&self, pod_uid: &str) -> Option<String> {
        let state = self.state();
        let mounts = state.volumes.values().flat_map(|volume| &volume.mounts);
        let mut of_pod = mounts.filter(|(target, _)| target.pod_uid == pod_uid);
        of_pod.find_map(|(_, mount)| mount.attach_limit.clone())
    }

    /// When the mount began that is being made; `now` if it begins now.
    pub fn mounting_since(&self, volume: &str, target: &Target, now: Duration) -> Duration {
        let mut state = self.state();
        let mount = state.volumes.get_mut(volume).and_then(|volume| volume.mounts.get_mut(target));
        mount.map_or(now, |mount| *mount.mounting_since.get_or_insert(now))
    }

    pub fn mounting_ended(&self, volume: &str, target: &Target) {
        self.update(volume, |v| {
            if let Some(mount) = v.mounts.get_mut(target) {
                mount.mounting_since = None;
            }
        });
    }

    /// Counts an attempt for a publication.
    pub fn attempted(&self, volume: &str, target: &Target, succeeded: bool) {
        self.update(volume, |v| {
            if let Some(mount) = v.mounts.get_mut(target) {
                mount.failures = if succeeded { 0 } else { mount.failures.saturating_add(1) };
            }
        });
    }

    pub fn forget(&self, volume: &str) {
        self.state().volumes.remove(volume);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
