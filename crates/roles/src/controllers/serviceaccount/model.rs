//! What the role sees of a namespace.

use std::convert::Infallible;
use std::sync::Arc;

use bowline_api::Namespace;

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub namespace: Arc<Namespace>,
    /// Whether the account is there.
    pub account: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
}

/// Nothing is ever waited for.
pub type Why = Infallible;

/// The account that pods run as unless they name another.
pub(super) const NAME: &str = "default";
