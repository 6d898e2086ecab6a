//! Metadata of objects: keys, annotations, finalizers.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// What every role asks of metadata.
pub trait Meta {
    fn meta(&self) -> &ObjectMeta;
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.meta().namespace.clone().unwrap_or_default(), self.name())
    }
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }
    fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }
    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
    /// The resourceVersion as a number; 0 for an object that was never stored.
    fn version(&self) -> u64 {
        self.meta().resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
    }
    fn deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
    fn annotation(&self, key: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(key).map(String::as_str)
    }
    fn set_annotation(&mut self, key: &str, value: impl Into<String>)
    where
        Self: Sized,
    {
        self.meta_mut().annotations.get_or_insert_default().insert(key.into(), value.into());
    }
    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.meta().finalizers.as_ref().is_some_and(|all| all.iter().any(|f| f == finalizer))
    }
    /// Adds a finalizer unless it is there.
    fn add_finalizer(&mut self, finalizer: &str) {
        if !self.has_finalizer(finalizer) {
            self.meta_mut().finalizers.get_or_insert_default().push(finalizer.into());
        }
    }
    fn remove_finalizer(&mut self, finalizer: &str) {
        if let Some(all) = &mut self.meta_mut().finalizers {
            all.retain(|f| f != finalizer);
        }
    }
}

impl<T: k8s_openapi::Metadata<Ty = ObjectMeta>> Meta for T {
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }
}
