//! The part of metadata that belongs to the server.

use jiff::Timestamp;
use serde_json::Value;

use super::set;

/// Metadata is there to be read, never to be set, and is not kept at all.
const DROPPED: [&str; 2] = ["managedFields", "selfLink"];

/// Whole seconds, as upstream writes times in metadata.
pub fn timestamp(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

/// A new object: identity and birth are the server's, whatever the client sent.
pub fn fill_new(object: &mut Value, uid: String, now: Timestamp, generation: bool) {
    for field in DROPPED {
        set(object, field, None);
    }
    set(object, "deletionTimestamp", None);
    set(object, "deletionGracePeriodSeconds", None);
    set(object, "resourceVersion", None);
    set(object, "uid", Some(uid.into()));
    set(object, "creationTimestamp", Some(timestamp(now)));
    // Kinds that do not count let clients say what they like; it is never changed afterwards.
    if generation {
        set(object, "generation", Some(1.into()));
    } else if object["metadata"]["generation"] == 0 {
        set(object, "generation", None);
    }
}

/// An update: what the client left out stays, and what only the server sets stays in any case. A change of what is
/// left then is refused.
pub fn carry_over(new: &mut Value, old: &Value) {
    for field in DROPPED {
        set(new, field, None);
    }
    for (field, ignored) in [
        ("uid", false),
        ("creationTimestamp", true),
        ("deletionTimestamp", true),
        ("deletionGracePeriodSeconds", false),
    ] {
        let kept = &old["metadata"][field];
        if (ignored || new["metadata"][field].is_null()) && !kept.is_null() {
            set(new, field, Some(kept.clone()));
        }
    }
    for field in ["generation", "resourceVersion"] {
        let own = &old["metadata"][field];
        set(new, field, (!own.is_null()).then(|| own.clone()));
    }
}
