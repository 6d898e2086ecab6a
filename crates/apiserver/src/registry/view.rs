//! One table, several kinds: how a kind sees objects that are stored in another form.

use std::sync::Arc;

use super::Kind;
use crate::store::Stored;

/// Tells one view from another. Compared by identity, so that the views of a definition before and after a
/// change differ.
#[derive(Debug, Clone, Default)]
pub struct ViewKey(Arc<()>);

impl ViewKey {
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// An object as a kind sees it: the stored one itself, unless the kind has a view.
pub fn seen(kind: &dyn Kind, stored: &Arc<Stored>) -> Arc<Stored> {
    match kind.view() {
        None => stored.clone(),
        Some(key) => stored.seen(key, |value| kind.from_stored(value)),
    }
}
