//! What a reopened backend says about a batch whose outcome was lost.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The whole batch is there.
    Landed,
    /// Nothing of it is there.
    Lost,
}

/// Batches are whole or absent, so the last version on disk tells; any other version is a reason to stop.
pub fn found(published: u64, batch: u64, on_disk: u64) -> Result<Found, String> {
    if on_disk == batch {
        Ok(Found::Landed)
    } else if on_disk == published {
        Ok(Found::Lost)
    } else {
        Err(format!(
            "the disk is at version {on_disk}, but {published} was acknowledged last: stop the server and run `bowline store check`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_landed_or_did_not_or_nobody_goes_on() {
        assert_eq!(found(10, 12, 12), Ok(Found::Landed));
        assert_eq!(found(10, 12, 10), Ok(Found::Lost));
        for on_disk in [9, 11, 13] {
            assert!(found(10, 12, on_disk).unwrap_err().contains(&format!("version {on_disk}")));
        }
    }
}
