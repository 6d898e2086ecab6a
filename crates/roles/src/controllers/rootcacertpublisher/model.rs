//! What the role sees of a namespace.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bowline_api::{ConfigMap, Namespace};

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub namespace: Arc<Namespace>,
    pub map: Option<Arc<ConfigMap>>,
    /// The certificate of the authority, PEM.
    pub root: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
    /// Something else was written into it, or the authority is another one now.
    Restore,
}

/// Nothing is ever waited for.
pub type Why = Infallible;

/// The config map that every pod mounts.
pub(super) const NAME: &str = "kube-root-ca.crt";
const FILE: &str = "ca.crt";

/// What stands in it.
pub(super) fn data(root: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(FILE.to_owned(), root.to_owned())])
}
