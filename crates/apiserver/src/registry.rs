//! The kinds this server knows, and the admission plugins in front of them.

mod erased;
mod info;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::admission::Admission;
use crate::custom::version_order;
use crate::kinds::Rules;

pub use erased::{Decoded, Kind, Part, Prepared};
pub use info::{KindInfo, KindNames, Scale, Subresource, Text, VERBS};
pub use view::{ViewKey, seen};

/// All kinds, by group, version and plural, in that order; later also in discovery.
#[derive(Default, Clone)]
pub struct Registry {
    kinds: BTreeMap<(String, String, String), Arc<dyn Kind>>,
    admission: Vec<Arc<dyn Admission>>,
}

impl Registry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind of this build.
    pub fn add<R: Rules>(&mut self) {
        self.add_kind(Arc::new(erased::Erased::<R>::new()));
    }

    /// Adds a kind. A second registration of the same plural replaces the first.
    pub fn add_kind(&mut self, kind: Arc<dyn Kind>) {
        let info = kind.info();
        let key = (info.group.to_string(), info.version.to_string(), info.names.plural.to_string());
        self.kinds.insert(key, kind);
    }

    /// Adds an admission plugin; plugins run in the order of registration.
    pub fn admit(&mut self, plugin: impl Admission) {
        self.admission.push(Arc::new(plugin));
    }

    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<dyn Kind>> {
        self.kinds.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// In order of group, version and plural.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.kinds.values()
    }

    pub fn admission(&self) -> &[Arc<dyn Admission>] {
        &self.admission
    }

    /// Group and version pairs, each once, the core group first.
    pub fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> =
            self.kinds.keys().map(|(group, version, _)| (group.as_str(), version.as_str())).collect();
        all.dedup();
        // Of each group the newest version first, which clients prefer.
        all.sort_by(|one, other| one.0.cmp(other.0).then_with(|| version_order::compare(one.1, other.1)));
        all
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.group_versions().contains(&(group, version))
    }
}
