//! What is special about namespaces: new content needs one, and deleting one takes its content along.
//!
//! A namespace on its way out is held by `spec.finalizers` until nothing is left in it. Whoever removes an
//! object checks whether it was the last one. What a request does not get done is done by [`follow`], and what a crash
//! leaves half done is taken up at the next start.

mod follow;

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_api::ObjectKey;
use serde_json::Value;

use super::Actor;
use super::delete::{self, Options, Propagation};
use crate::core::Core;
use crate::metadata;
use crate::registry::{Kind, KindInfo};
use crate::status::{Cause, Resource, Status};
use crate::store::{Change, Expect, Write, WriteError};

pub use follow::follow;

pub const RESOURCE: Resource<'static> = Resource { group: "", plural: "namespaces" };

/// Refuses new content in a namespace that does not exist or does not stay.
pub fn accepts_content(
    core: &Core,
    resource: Resource<'_>,
    name: &str,
    namespace: &str,
) -> Result<(), Status> {
    if core.registry().kind("", "v1", RESOURCE.plural).is_none() {
        return Ok(());
    }
    let Some(found) = core.store.get(RESOURCE.plural, &ObjectKey::cluster(namespace)) else {
        return Err(Status::not_found(RESOURCE, namespace));
    };
    if !found.deleting() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(resource, name, &why);
    status.details.causes.push(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    });
    Err(status)
}

/// Whether an object is a namespace whose content is not known to be gone.
pub fn is_held(info: &KindInfo, object: &Value) -> bool {
    info.resource() == RESOURCE && !object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Shows that a namespace is on its way out.
pub fn mark(info: &KindInfo, object: &mut Value) {
    if info.resource() == RESOURCE {
        object["status"]["phase"] = "Terminating".into();
    }
}

/// Deletes what is in a namespace that is being deleted, and then the namespace if nothing is left.
pub async fn empty(core: &Core, namespace: &str) {
    let found = core.store.get(RESOURCE.plural, &ObjectKey::cluster(namespace));
    if found.is_some_and(|found| found.deleting()) {
        put_off(sweep(core, namespace).await);
    }
}

/// The write before this is done, so the request does not fail if the rest does; that is not forgotten.
fn put_off(rest: Result<(), Status>) {
    if let Err(status) = rest {
        tracing::warn!(why = status.message, "a namespace that is being deleted is not empty yet");
    }
}

async fn sweep(core: &Core, namespace: &str) -> Result<(), Status> {
    for kind in contained(core) {
        let kind = kind.as_ref();
        let page = core.page(kind, Some(namespace), None, None, usize::MAX).map_err(Status::internal)?;
        // Asked after the page was read: then nothing in it belongs to a new namespace of the same name.
        if stays(core, namespace) {
            return Ok(());
        }
        for object in page.objects {
            let uid = metadata::text(&object.value(), "uid").to_owned();
            // With the namespace goes all that could be left behind.
            let propagation = Some(Propagation::Background);
            let options = Options { uid: Some(uid), propagation, ..Options::default() };
            match delete::delete(core, kind, &object.key, &options, &Actor::server()).await {
                Err(status) if status.code >= 500 => return Err(status),
                _ => {}
            }
        }
    }
    release(core, namespace).await
}

/// Takes up what a crash interrupted.
pub async fn resume(core: &Core) -> Result<(), Status> {
    for namespace in leaving(core)? {
        sweep(core, &namespace).await?;
    }
    Ok(())
}

/// The namespaces that are being deleted.
fn leaving(core: &Core) -> Result<Vec<String>, Status> {
    let all = core.store.page(RESOURCE.plural, None, None, None, usize::MAX).map_err(Status::internal)?;
    let leaving = all.objects.iter().filter(|namespace| namespace.deleting());
    Ok(leaving.map(|namespace| namespace.key.name.clone()).collect())
}

/// The deletion of a namespace may overtake a create in it; then its object goes as if it had come first.
pub async fn after_creation(core: &Core, namespace: &str) {
    if !stays(core, namespace) {
        put_off(sweep(core, namespace).await);
    }
}

/// Whether a namespace is there and not being deleted. Where nobody knows of namespaces they all are.
fn stays(core: &Core, namespace: &str) -> bool {
    let known = core.registry().kind("", "v1", RESOURCE.plural).is_some();
    let found = core.store.get(RESOURCE.plural, &ObjectKey::cluster(namespace));
    !known || found.is_some_and(|found| !found.deleting())
}

/// What went may have been the last object of a namespace that is being deleted.
pub async fn after_removal(core: &Core, namespace: &str) {
    put_off(release(core, namespace).await);
}

/// Lets a namespace go that is being deleted and has nothing left in it.
async fn release(core: &Core, namespace: &str) -> Result<(), Status> {
    let key = ObjectKey::cluster(namespace);
    while let Some(current) = core.store.get(RESOURCE.plural, &key).filter(|found| found.deleting()) {
        if !is_empty(core, namespace)? {
            return Ok(());
        }
        let mut object = current.value();
        let change = if metadata::finalizers(&object).is_empty() {
            Change::Delete
        } else {
            // Held by somebody else; the content at least is gone.
            if object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                return Ok(());
            }
            object["spec"]["finalizers"] = Value::Array(Vec::new());
            Change::Put(object)
        };
        let expect = Expect::Version(current.version);
        let write = Write { resource: RESOURCE.plural.into(), key: key.clone(), expect, change };
        match core.store.write(write).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
        }
    }
    Ok(())
}

fn is_empty(core: &Core, namespace: &str) -> Result<bool, Status> {
    for kind in contained(core) {
        let page = core.store.stretch(&kind.info().table, Some(namespace), None, None, 1);
        if !page.map_err(Status::internal)?.objects.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The kinds that live in namespaces, one for each table.
fn contained(core: &Core) -> Vec<Arc<dyn Kind>> {
    let registry = core.registry();
    let mut tables = BTreeSet::new();
    let namespaced = registry.kinds().filter(|kind| kind.info().namespaced);
    namespaced.filter(|kind| tables.insert(kind.info().table.clone())).cloned().collect()
}
