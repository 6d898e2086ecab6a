//! What every verb works on.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bowline_api::ObjectKey;
use bowline_host::{Clock, Random};
use serde_json::Value;

use crate::admission::{AdmissionRequest, Lister};
use crate::proxy::NodeProxy;
use crate::registry::Registry;
use crate::status::{Resource, Status};
use crate::store::Store;

/// The store, the kinds and the two doors to the outside that verbs need.
pub struct Core {
    pub store: Store,
    /// Replaced as a whole when kinds come or go, so that a request sees one set of kinds throughout.
    registry: RwLock<Arc<Registry>>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    node_proxy: OnceLock<NodeProxy>,
}

impl Core {
    pub fn new(store: Store, registry: Registry, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let registry = RwLock::new(Arc::new(registry));
        Self { store, registry, clock, random, node_proxy: OnceLock::new() }
    }

    /// The way to kubelets, if this server was given one.
    pub fn node_proxy(&self) -> Option<&NodeProxy> {
        self.node_proxy.get()
    }

    /// The first one stays.
    pub fn set_node_proxy(&self, proxy: NodeProxy) {
        let _ = self.node_proxy.set(proxy);
    }

    /// The kinds as they are now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets every plugin change or refuse an object, in order of registration.
    pub fn admit(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        self.registry().admission().iter().try_for_each(|plugin| plugin.admit(request, object, self))
    }

    /// Lets every plugin refuse what is about to be stored.
    pub fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
        self.registry().admission().iter().try_for_each(|plugin| plugin.validate(request, object, self))
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
