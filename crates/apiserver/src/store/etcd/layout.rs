//! How objects look in etcd.
//!
//! ```text
//! /registry/bowline-format                  1
//! /registry/<resource>/<namespace>/<name>   {"apiVersion":…,"metadata":{…,"resourceVersion":"<write id>"},…}
//! ```
//!
//! A resource is `plural` or `plural.group`; the namespace is empty for kinds without one. Values are the JSON of the
//! API. Their resourceVersion cannot be stored, since etcd gives it out with the write; in its place stands the id of
//! the write, by which a server recognises its own write when the answer to it was lost. Upstream uses other keys and
//! protobuf, so the two cannot share a prefix: the format key tells them apart.

use crate::store::object::json;
use bowline_api::ObjectKey;
use bytes::Bytes;
use serde_json::Value;

/// Raised when keys or values could not be read by an older version.
pub const FORMAT: u32 = 1;
/// One part, where objects have three: no object is called so.
const FORMAT_NAME: &str = "bowline-format";
const SEPARATOR: char = '/';

/// Keys below a prefix.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Ends in the separator.
    prefix: String,
}

/// A key of ours, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub enum Place<'a> {
    Object {
        resource: &'a str,
        key: ObjectKey,
    },
    Format,
    /// Not written by us.
    Foreign,
}

/// A value of ours, taken apart.
#[derive(Debug, PartialEq)]
pub struct Kept {
    /// Without a resourceVersion.
    pub object: Value,
    pub write_id: String,
}

impl Layout {
    pub fn new(prefix: &str) -> Result<Self, String> {
        let parts = prefix.trim_matches(SEPARATOR);
        if parts.is_empty() {
            return Err(format!("--etcd-prefix `{prefix}` is empty; upstream's default is /registry"));
        }
        Ok(Self { prefix: format!("{SEPARATOR}{parts}{SEPARATOR}") })
    }

    /// For messages.
    pub fn prefix(&self) -> &str {
        self.prefix.trim_end_matches(SEPARATOR)
    }

    /// All keys, as etcd wants it: the first one, and the first one after the last.
    pub fn range(&self) -> (Bytes, Bytes) {
        let mut end = self.prefix.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (self.prefix.clone().into(), end.into())
    }

    pub fn format_key(&self) -> Bytes {
        format!("{}{FORMAT_NAME}", self.prefix).into()
    }

    pub fn key(&self, resource: &str, key: &ObjectKey) -> Bytes {
        let ObjectKey { namespace, name } = key;
        format!("{}{resource}{SEPARATOR}{namespace}{SEPARATOR}{name}", self.prefix).into()
    }

    pub fn place<'a>(&self, key: &'a [u8]) -> Place<'a> {
        let own = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(self.prefix.as_str()));
        let Some(own) = own else { return Place::Foreign };
        let parts: Vec<&str> = own.split(SEPARATOR).collect();
        match parts[..] {
            [FORMAT_NAME] => Place::Format,
            [resource, namespace, name] if !resource.is_empty() && !name.is_empty() => {
                Place::Object { resource, key: ObjectKey::new(namespace, name) }
            }
            _ => Place::Foreign,
        }
    }
}

/// The value of an object. Its resourceVersion is replaced.
pub fn encode(object: &mut Value, write_id: &str) -> Result<Bytes, String> {
    if !object["metadata"].is_object() {
        return Err("an object without metadata cannot be stored".into());
    }
    object["metadata"]["resourceVersion"] = write_id.into();
    json(object).map(Bytes::from).map_err(|error| error.to_string())
}

pub fn decode(value: &[u8]) -> Result<Kept, String> {
    let mut object: Value =
        serde_json::from_slice(value).map_err(|error| format!("its value is not JSON: {error}"))?;
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or("its value has no metadata")?;
    let write_id = match metadata.remove("resourceVersion") {
        Some(Value::String(id)) => id,
        _ => String::new(),
    };
    Ok(Kept { object, write_id })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_lead_back_to_objects() {
        let layout = Layout::new("registry/").unwrap();
        assert_eq!(layout.prefix(), "/registry");
        let table = [
            ("pods", ObjectKey::new("ns", "a"), "/registry/pods/ns/a"),
            ("events", ObjectKey::new("ns", "a\0b"), "/registry/events/ns/a\0b"),
            (
                "storageclasses.storage.k8s.io",
                ObjectKey::cluster("a"),
                "/registry/storageclasses.storage.k8s.io//a",
            ),
        ];
        for (resource, key, text) in table {
            assert_eq!(layout.key(resource, &key), text);
            assert_eq!(layout.place(text.as_bytes()), Place::Object { resource, key });
        }
        assert_eq!(layout.place(&layout.format_key()), Place::Format);
        for foreign in [
            "/registry/pods/a",
            "/registry/pods/ns/",
            "/registry///a",
            "/registry/a/b/c/d",
            "/other/pods/ns/a",
        ] {
            assert_eq!(layout.place(foreign.as_bytes()), Place::Foreign, "{foreign}");
        }
        let (start, end) = layout.range();
        assert_eq!((&*start, &*end), (&b"/registry/"[..], &b"/registry0"[..]));
        assert!(Layout::new("/").is_err());
    }

    #[test]
    fn a_value_carries_its_write_id_in_place_of_the_version() {
        let mut object = json!({"kind": "A", "metadata": {"name": "a", "resourceVersion": "7"}});
        let value = encode(&mut object, "id-1").unwrap();
        let kept = decode(&value).unwrap();
        assert_eq!(kept.write_id, "id-1");
        assert_eq!(kept.object, json!({"kind": "A", "metadata": {"name": "a"}}));
        assert!(encode(&mut json!({"metadata": 1}), "id").is_err());
        for (bad, why) in
            [("k8s\0", "not JSON"), ("[]", "no metadata"), (r#"{"metadata":[]}"#, "no metadata")]
        {
            assert!(decode(bad.as_bytes()).unwrap_err().contains(why), "{bad}");
        }
    }
}
