//! What a client hears of a store in trouble.

use http::StatusCode;

use super::Status;
use crate::store::Trouble;

/// When it may be worth another try.
const RETRY_AFTER_SECONDS: u32 = 1;

impl Status {
    /// A store that refuses, fails or does not answer.
    pub fn store(trouble: Trouble) -> Self {
        let text = trouble.to_string();
        match trouble {
            // Upstream has no word for this code; clients take the reason as a text.
            Trouble::Full(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage", text),
            Trouble::TooLarge(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", text),
            Trouble::NotWritten(_) => {
                let mut status = Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", text);
                status.details.retry_after_seconds = RETRY_AFTER_SECONDS;
                status
            }
            Trouble::Unknown(_) => Self::internal(text),
        }
    }
}
