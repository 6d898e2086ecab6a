//! Tokens and when they are renewed. Pure.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// No token is used for longer, however long it would live.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// A token of a pod's account.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub renew_at: Timestamp,
    /// From then on nobody takes it.
    pub expires: Timestamp,
}

// By hand: a token must not reach a log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Token");
        shown.field("renew_at", &self.renew_at).field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// When a token that was given for `seconds` and ends at `expires` is replaced: a fifth of its life before its end.
pub fn renew_at(seconds: i64, expires: Timestamp) -> Timestamp {
    let life = SignedDuration::from_secs(seconds);
    let given = expires.checked_sub(life).unwrap_or(expires);
    let late = expires.checked_sub(life / 5).unwrap_or(expires);
    given.checked_add(AGE_MAX).map_or(late, |old| old.min(late))
}
