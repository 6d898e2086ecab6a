//! Encoded events that many watchers hold at the same time, in one copy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

/// What is being sent to at least one watcher, by its hash.
#[derive(Default)]
pub struct SharedFrames {
    frames: Mutex<HashMap<u64, Weak<Frame>>>,
}

struct Frame {
    bytes: Bytes,
    hash: u64,
    home: Weak<SharedFrames>,
}

/// Keeps a frame for as long as a connection has not sent it.
struct Holder(Arc<Frame>);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut frames = home.lock();
        // Another one may have taken its place.
        if frames.get(&self.hash).is_some_and(|frame| frame.strong_count() == 0) {
            frames.remove(&self.hash);
        }
    }
}

impl SharedFrames {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<Frame>>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same bytes: those that another watcher holds already, if any does.
    pub fn share(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let hash = xxh3_64(&bytes);
        // Not let go of under the lock, which its end takes.
        let known = self.lock().get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.bytes == bytes) {
            return Bytes::from_owner(Holder(known));
        }
        let frame = Arc::new(Frame { bytes, hash, home: Arc::downgrade(self) });
        let replaced = self.lock().insert(hash, Arc::downgrade(&frame));
        drop(replaced);
        Bytes::from_owner(Holder(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_frames_are_held_once_and_forgotten_when_sent() {
        let shared = Arc::new(SharedFrames::default());
        let one = shared.share(Bytes::from(vec![7; 100]));
        let two = shared.share(Bytes::from(vec![7; 100]));
        let other = shared.share(Bytes::from(vec![8; 100]));
        assert_eq!(one.as_ptr(), two.as_ptr());
        assert_ne!(one.as_ptr(), other.as_ptr());
        drop(one);
        assert_eq!(shared.lock().len(), 2);
        assert_eq!(two, vec![7; 100]);
        drop((two, other));
        assert!(shared.lock().is_empty());
    }
}
