//! What every verb works on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bowline_api::ObjectKey;
use bowline_host::{Clock, Random};
use bytes::Bytes;
use serde_json::Value;

use crate::admission::{AdmissionRequest, Lister};
use crate::auth::Access;
use crate::custom::Definitions;
use crate::discovery::Documents;
use crate::field::{Invalid, Reason};
use crate::json::{size_at_most, size_within};
use crate::limits::{LimitSettings, Limits};
use crate::metadata;
use crate::metrics::Metrics;
use crate::output::SharedFrames;
use crate::proxy::NodeProxy;
use crate::registry::{Kind, Registry, seen};
use crate::status::{Resource, Status};
use crate::store::{Change, Gone, Page, Store, Stored, Trouble, Write, WriteError};

/// The largest object that is stored, as JSON: what fits into one request. Upstream's store takes half of it, but in
/// protobuf, which is shorter.
pub const OBJECT_MAX: usize = 3 << 20;

/// How much a deletion may add to an object that is larger already: when, how long it may take, by which manager.
const DELETION_NOTES: usize = 4 << 10;

/// The store, the kinds and the two doors to the outside that verbs need.
pub struct Core {
    pub store: Store,
    /// Replaced as a whole when kinds come or go, so that a request sees one set of kinds throughout.
    registry: RwLock<Arc<Registry>>,
    pub access: Access,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// What was asked for and is kept.
    pub openapi: Documents,
    pub definitions: Definitions,
    pub metrics: Arc<Metrics>,
    pub shared_frames: Arc<SharedFrames>,
    pub limits: Limits,
    node_proxy: OnceLock<NodeProxy>,
    allow_privileged: AtomicBool,
}

impl Core {
    pub fn new(
        store: Store,
        registry: Registry,
        access: Access,
        limits: LimitSettings,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let metrics = Arc::new(Metrics::new(clock.now()));
        let limits = Limits::new(limits, metrics.clone());
        let counted = metrics.clone();
        store.observe_writes(move |operation, resource, took, ok| {
            counted.wrote(operation, resource, took, ok);
        });
        Self {
            store,
            definitions: Definitions::new(registry.clone()),
            registry: RwLock::new(Arc::new(registry)),
            access,
            clock,
            random,
            openapi: Documents::default(),
            metrics,
            shared_frames: Arc::default(),
            limits,
            node_proxy: OnceLock::new(),
            allow_privileged: AtomicBool::new(false),
        }
    }

    /// The way to kubelets, if this server was given one.
    pub fn node_proxy(&self) -> Option<&NodeProxy> {
        self.node_proxy.get()
    }

    /// The first one stays.
    pub fn set_node_proxy(&self, proxy: NodeProxy) {
        let _ = self.node_proxy.set(proxy);
    }

    pub fn set_allow_privileged(&self, allow: bool) {
        self.allow_privileged.store(allow, Ordering::Relaxed);
    }

    /// Drops those errors that stand only for what this server allows.
    pub fn settle(&self, errors: &mut Vec<Invalid>) {
        let allow = self.allow_privileged.load(Ordering::Relaxed);
        errors.retain(|error| !allow || error.reason != Reason::Disallowed);
    }

    /// The kinds as they are now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From the next request on.
    pub fn set_registry(&self, registry: Registry) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
    }

    /// One object as a kind sees it.
    pub fn object(&self, kind: &dyn Kind, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.store.get(&kind.info().table, key).map(|stored| seen(kind, &stored))
    }

    /// A stretch of a list as a kind sees it; see [`Store::page`].
    pub fn page(
        &self,
        kind: &dyn Kind,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        at: Option<u64>,
        max: usize,
    ) -> Result<Page, Gone> {
        let mut page = self.store.page(&kind.info().table, namespace, after, at, max)?;
        if kind.view().is_some() {
            page.objects = page.objects.iter().map(|stored| seen(kind, stored)).collect();
        }
        Ok(page)
    }

    /// Writes an object in a kind's form; the answer is in the kind's form, too.
    pub async fn write(&self, kind: &dyn Kind, mut write: Write) -> Result<Arc<Stored>, WriteError> {
        write.change = match write.change {
            Change::Put(object) => {
                let object = kind.to_stored(object);
                self.check_size(&write.resource, &write.key, &object)?;
                Change::Put(object)
            }
            Change::Delete => Change::Delete,
        };
        self.store.write(write).await.map(|stored| seen(kind, &stored))
    }

    /// Refuses what is too large, unless it was so before: then it may shrink, and what deletes it may still be noted.
    fn check_size(&self, table: &str, key: &ObjectKey, object: &Value) -> Result<(), Trouble> {
        if size_at_most(object) <= OBJECT_MAX || size_within(object, OBJECT_MAX).is_some() {
            return Ok(());
        }
        let before = self.store.get(table, key).map_or(0, |old| old.json.len());
        let noted = if metadata::deleting(object) { DELETION_NOTES } else { 0 };
        match size_within(object, before + noted) {
            Some(_) => Ok(()),
            None => Err(Trouble::TooLarge(format!(
                "Request entity too large: limit is {OBJECT_MAX}, which the object exceeds as it would be stored"
            ))),
        }
    }

    /// Whether an object that a kind sees unchanged would be stored differently today: by an older version of
    /// its definition it was.
    pub fn is_outdated(&self, kind: &dyn Kind, key: &ObjectKey, object: &Value) -> bool {
        let stored = || self.store.get(&kind.info().table, key);
        kind.view().is_some() && stored().is_some_and(|old| old.value() != kind.to_stored(object.clone()))
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
    fn access(&self) -> Option<&Access> {
        Some(&self.access)
    }

    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let table = Resource { group, plural }.to_string();
        self.store.get(&table, &ObjectKey::new(namespace, name)).map(|object| object.value())
    }

    fn list(&self, group: &str, plural: &str) -> Vec<Value> {
        let table = Resource { group, plural }.to_string();
        let page = self.store.page(&table, None, None, None, usize::MAX);
        page.map(|page| page.objects.iter().map(|object| object.value()).collect()).unwrap_or_default()
    }

    fn texts(&self, group: &str, plural: &str, namespace: &str) -> Vec<Bytes> {
        let table = Resource { group, plural }.to_string();
        let page = self.store.page(&table, Some(namespace), None, None, usize::MAX);
        page.map(|page| page.objects.iter().map(|object| object.json.clone()).collect()).unwrap_or_default()
    }
}
