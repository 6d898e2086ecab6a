//! Tokens and when they are renewed. Pure.
//!
//! The API server says until when a token is good by its own clock, and for how many seconds. The seconds count here, by the
//! machine's uptime: the two machines need not agree on the time of day.

use std::fmt;
use std::time::Duration;

/// No token is used for longer, however long it would live.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A token of a pod's account.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub renew_at: Duration,
    /// From then on no server accepts it.
    pub expires: Duration,
}

// By hand: a token must not reach a log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Token");
        shown.field("renew_at", &self.renew_at).field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl Token {
    /// A token that was asked for at `asked` and is good for `life` since then. It is replaced a fifth of its life before
    /// its end.
    pub fn new(text: String, asked: Duration, life: Duration) -> Self {
        let renew_at = asked.saturating_add((life * 4 / 5).min(AGE_MAX));
        Self { text, renew_at, expires: asked.saturating_add(life) }
    }
}
