//! What every verb works on.

use std::sync::Arc;

use bowline_api::ObjectKey;
use bowline_host::{Clock, Random};
use serde_json::Value;

use crate::admission::{AdmissionRequest, Lister};
use crate::registry::Registry;
use crate::status::{Resource, Status};
use crate::store::Store;

/// The store, the kinds and the two doors to the outside that verbs need.
pub struct Core {
    pub store: Store,
    pub registry: Registry,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

impl Core {
    /// Lets every plugin change or refuse an object, in order of registration.
    pub fn admit(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        self.registry.admission().iter().try_for_each(|plugin| plugin.admit(request, object, self))
    }

    /// Lets every plugin refuse what is about to be stored.
    pub fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
        self.registry.admission().iter().try_for_each(|plugin| plugin.validate(request, object, self))
    }
}

impl Lister for Core {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let table = Resource { group, plural }.to_string();
        self.store.get(&table, &ObjectKey::new(namespace, name)).map(|object| object.value())
    }

    fn list(&self, group: &str, plural: &str) -> Vec<Value> {
        let table = Resource { group, plural }.to_string();
        let page = self.store.page(&table, None, None, None, usize::MAX);
        page.map(|page| page.objects.iter().map(|object| object.value()).collect()).unwrap_or_default()
    }
}
