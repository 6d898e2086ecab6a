//! What the role sees of a namespace.

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
    /// Somebody wrote something else into it, or the authority is another one now.
    Restore,
}

/// Nothing is ever waited for.
pub type Why = Infallible;
