//! Sockets seen and plugins known: all of it is learnt again after a restart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_host::net::DirEvent;

use super::model::{Plugin, Progress};

/// Shared by the watcher and the workers.
#[derive(Clone, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    created: u64,
    /// Which creation of a socket stands at a path.
    sockets: BTreeMap<PathBuf, u64>,
    plugins: BTreeMap<PathBuf, Plugin>,
    /// Drivers that left, and the uptime at which their traces in the API may go.
    departed: BTreeMap<String, Duration>,
    /// When each driver last said how many volumes it can attach here.
    asked: BTreeMap<String, Duration>,
}

impl Memory {
    /// A socket that is created again is another one, even at the same path.
    pub fn take(&self, event: &DirEvent) -> PathBuf {
        let mut state = self.state();
        match event {
            DirEvent::Created(path) => {
                state.created += 1;
                let generation = state.created;
                state.sockets.insert(path.clone(), generation);
                path.clone()
            }
            DirEvent::Removed(path) => {
                state.sockets.remove(path);
                path.clone()
            }
        }
    }

    pub fn generation(&self, path: &Path) -> Option<u64> {
        self.state().sockets.get(path).copied()
    }

    pub fn plugin(&self, path: &Path) -> Option<Plugin> {
        self.state().plugins.get(path).cloned()
    }

    pub fn know(&self, path: &Path, plugin: Plugin) {
        self.state().plugins.insert(path.to_owned(), plugin);
    }

    pub fn advance(&self, path: &Path, progress: Progress) {
        if let Some(plugin) = self.state().plugins.get_mut(path) {
            plugin.progress = progress;
        }
    }

    pub fn unknow(&self, path: &Path) -> Option<Plugin> {
        self.state().plugins.remove(path)
    }

    /// Whether some socket, other than `except`, offers this driver or is about to.
    pub fn offered(&self, driver: &str, except: Option<&Path>) -> bool {
        let state = self.state();
        state.plugins.iter().any(|(path, plugin)| {
            plugin.info.name == driver
                && Some(path.as_path()) != except
                && !matches!(plugin.progress, Progress::Rejected(_))
        })
    }

    /// Version list of the plugin that is registered for a driver behind another socket.
    pub fn rival_versions(&self, driver: &str, path: &Path) -> Option<Vec<String>> {
        let state = self.state();
        let rival = state.plugins.iter().find(|(at, plugin)| {
            plugin.info.name == driver && *at != path && matches!(plugin.progress, Progress::Registered(_))
        });
        rival.map(|(_, plugin)| plugin.info.versions.clone())
    }

    /// Sockets whose plugin is known.
    pub fn known(&self) -> Vec<PathBuf> {
        self.state().plugins.keys().cloned().collect()
    }

    pub fn asked(&self, driver: &str) -> Option<Duration> {
        self.state().asked.get(driver).copied()
    }

    /// `at`: none when it is to be asked again at once.
    pub fn set_asked(&self, driver: &str, at: Option<Duration>) {
        let mut state = self.state();
        match at {
            Some(at) => drop(state.asked.insert(driver.to_owned(), at)),
            None => drop(state.asked.remove(driver)),
        }
    }

    pub fn depart(&self, driver: &str, due: Duration) {
        self.state().departed.insert(driver.to_owned(), due);
    }

    pub fn due(&self, driver: &str) -> Option<Duration> {
        self.state().departed.get(driver).copied()
    }

    pub fn forget(&self, driver: &str) {
        self.state().departed.remove(driver);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
