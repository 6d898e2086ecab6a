//! How a role ends when it cannot go on.

/// Why a role could not start, or had to end before it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{component}: {message}")]
pub struct RunError {
    /// Upstream's name of the component.
    pub component: &'static str,
    /// What went wrong and what to do about it.
    pub message: String,
}
