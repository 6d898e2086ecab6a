//! Objects that many processes on one thread read, decoded once. Only a simulation has such processes: what one of them
//! was sent, byte for byte, others are sent, too, and decoded objects never change.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Object;

/// Objects that are kept. A process that is told late decodes again.
const KEPT: usize = 256;

/// The type and the bytes, by a digest that no two objects share.
type Key = (TypeId, u128);

#[derive(Default)]
struct Decoded {
    objects: HashMap<Key, Arc<dyn Any + Send + Sync>>,
    /// Oldest first.
    order: VecDeque<Key>,
}

thread_local! {
    static DECODED: RefCell<Option<Decoded>> = const { RefCell::new(None) };
}

/// While this lives, clients on this thread share what they decode.
pub struct Sharing(());

/// Begins with nothing.
pub fn share() -> Sharing {
    DECODED.set(Some(Decoded::default()));
    Sharing(())
}

impl Drop for Sharing {
    fn drop(&mut self) {
        DECODED.set(None);
    }
}

/// The object of these bytes.
pub(super) fn decoded<K: Object, E>(json: &[u8], decode: impl FnOnce() -> Result<K, E>) -> Result<Arc<K>, E> {
    DECODED.with_borrow_mut(|decoded| {
        let Some(decoded) = decoded else { return decode().map(Arc::new) };
        let key = (TypeId::of::<K>(), xxhash_rust::xxh3::xxh3_128(json));
        if let Some(known) = decoded.objects.get(&key).and_then(|any| any.clone().downcast().ok()) {
            return Ok(known);
        }
        let object = Arc::new(decode()?);
        decoded.objects.insert(key, object.clone());
        decoded.order.push_back(key);
        if decoded.order.len() > KEPT
            && let Some(oldest) = decoded.order.pop_front()
        {
            decoded.objects.remove(&oldest);
        }
        Ok(object)
    })
}

#[cfg(test)]
mod tests {
    use bowline_api::ConfigMap;

    use super::*;

    fn read(json: &str) -> Arc<ConfigMap> {
        decoded(json.as_bytes(), || serde_json::from_str::<ConfigMap>(json)).unwrap()
    }

    /// Goal: the same bytes are one object while it is shared, other bytes are another one, and nothing outlives a history.
    #[test]
    fn equal_bytes_are_decoded_once_while_they_are_shared() {
        let [one, other] = ["1", "2"]
            .map(|version| format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#));
        assert!(!Arc::ptr_eq(&read(&one), &read(&one)));
        let sharing = share();
        let first = read(&one);
        assert!(Arc::ptr_eq(&first, &read(&one)));
        assert_ne!(*first, *read(&other));
        for number in 0..KEPT {
            read(&format!(r#"{{"metadata":{{"name":"{number}"}}}}"#));
        }
        assert!(!Arc::ptr_eq(&first, &read(&one)), "what is old is forgotten");
        drop(sharing);
        assert!(DECODED.with_borrow(Option::is_none));
    }
}
