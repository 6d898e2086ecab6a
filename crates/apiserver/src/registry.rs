//! The kinds this server knows, and the admission plugins in front of them.

mod erased;
mod info;
pub mod version_order;
mod view;

use std::sync::Arc;

use crate::admission::Admission;
use crate::kinds::Rules;

#[cfg(test)]
pub(crate) use erased::Erased;
pub use erased::{Decoded, Kind, Part, Prepared};
pub use info::{KindInfo, KindNames, Scale, Subresource, Text, VERBS};
pub use view::{ViewKey, seen};

/// All kinds, by group, version and plural, in that order; later also in discovery.
#[derive(Default, Clone)]
pub struct Registry {
    /// In order of their keys.
    kinds: Vec<Arc<dyn Kind>>,
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
        match self.position(key(&kind)) {
            Ok(at) => self.kinds[at] = kind,
            Err(at) => self.kinds.insert(at, kind),
        }
    }

    fn position(&self, wanted: (&str, &str, &str)) -> Result<usize, usize> {
        self.kinds.binary_search_by(|kind| key(kind).cmp(&wanted))
    }

    /// Adds an admission plugin; plugins run in the order of registration.
    pub fn admit(&mut self, plugin: impl Admission) {
        self.admission.push(Arc::new(plugin));
    }

    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<dyn Kind>> {
        self.position((group, version, plural)).ok().map(|at| &self.kinds[at])
    }

    /// In order of group, version and plural.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.kinds.iter()
    }

    pub fn admission(&self) -> &[Arc<dyn Admission>] {
        &self.admission
    }

    /// Group and version pairs, each once, the core group first.
    pub fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> =
            self.kinds.iter().map(|kind| (&*kind.info().group, &*kind.info().version)).collect();
        all.dedup();
        // Of each group the newest version first, which clients prefer.
        all.sort_by(|one, other| one.0.cmp(other.0).then_with(|| version_order::compare(one.1, other.1)));
        all
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        // An empty plural would stand before all others.
        let first = self.position((group, version, "")).unwrap_or_else(|at| at);
        self.kinds.get(first).is_some_and(|kind| (key(kind).0, key(kind).1) == (group, version))
    }
}

/// Group, version and plural.
fn key(kind: &Arc<dyn Kind>) -> (&str, &str, &str) {
    let info = kind.info();
    (&info.group, &info.version, &info.names.plural)
}
