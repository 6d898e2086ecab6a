//! Which pods have, or may have, something below the kubelet's directory because of this installation.
//!
//! One empty file for each pod in `<kubelet-dir>/bowline-pods`. It is made, durably, before the pod's directory and removed
//! after it, so wherever a process dies, its successor finds every directory that it has to remove. What has no record
//! was made by another program and is never changed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_host::Host;
use bowline_machinery::RunError;

pub(super) const DIRECTORY: &str = "bowline-pods";
const DIRECTORY_MODE: u32 = 0o700;

/// Clones share it.
#[derive(Clone)]
pub struct PodRecords {
    host: Host,
    dir: PathBuf,
    known: Arc<Mutex<BTreeSet<String>>>,
    /// One change at a time: a record that is being removed is not taken for one that is there.
    changing: Arc<tokio::sync::Mutex<()>>,
}

impl PodRecords {
    /// Reads the records of an earlier process.
    pub async fn load(host: &Host, kubelet_dir: &Path) -> Result<Self, RunError> {
        let dir = kubelet_dir.join(DIRECTORY);
        let listed = host.disk.list(&dir).await.map_err(|source| RunError::Io {
            what: "list the pods of an earlier process in",
            path: dir.display().to_string(),
            source,
        })?;
        let known = Arc::new(Mutex::new(listed.into_iter().collect()));
        Ok(Self { host: host.clone(), dir, known, changing: Arc::default() })
    }

    pub fn knows(&self, uid: &str) -> bool {
        self.known().contains(uid)
    }

    /// Like [`PodRecords::knows`], but not while a record is being removed.
    pub async fn has(&self, uid: &str) -> bool {
        let _turn = self.changing.lock().await;
        self.knows(uid)
    }

    pub fn uids(&self) -> Vec<String> {
        self.known().iter().cloned().collect()
    }

    /// From now on the pod's directory is ours. Durable on return.
    pub async fn add(&self, uid: &str) -> io::Result<()> {
        let _turn = self.changing.lock().await;
        if self.knows(uid) {
            return Ok(());
        }
        self.host.disk.create_dir_all(&self.dir, DIRECTORY_MODE).await?;
        self.host.disk.create_file(&self.dir.join(uid)).await?;
        self.known().insert(uid.to_owned());
        Ok(())
    }

    /// Nothing of the pod is left, which `left` is asked once more: what is on its way says so before it comes here for
    /// its record. `ResourceBusy` when something is.
    pub async fn remove(&self, uid: &str, left: impl Fn() -> bool) -> io::Result<()> {
        let _turn = self.changing.lock().await;
        if left() {
            let text = "a volume of the pod has come back meanwhile";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        self.host.disk.remove_file(&self.dir.join(uid)).await?;
        self.known().remove(uid);
        Ok(())
    }

    /// Says once which directories of pods were made by another program and are left alone.
    pub async fn report_unknown(&self, pods: &Path) {
        let listed = match self.host.disk.list(pods).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(dir = %pods.display(), %error, "cannot list the directories of pods");
                return;
            }
        };
        let unknown: Vec<String> = listed.into_iter().filter(|name| !self.knows(name)).collect();
        if !unknown.is_empty() {
            tracing::warn!(
                dir = %pods.display(),
                entries = ?unknown,
                "entries that this installation did not make are left as they are"
            );
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
