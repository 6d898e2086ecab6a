//! `extension-apiserver-authentication` in `kube-system`: where upstream's controllers and other servers in the cluster
//! learn which client certificates to believe.

use std::sync::Arc;

use bowline_api::ObjectKey;
use serde_json::json;

use crate::core::Core;
use crate::status::Status;
use crate::store::{Change, Expect, Write, WriteError};
use crate::verbs;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const FIELD: &str = "client-ca-file";

pub async fn publish(core: &Arc<Core>, pem: &str) -> Result<(), Status> {
    let Some(kind) = core.registry().kind("", "v1", "configmaps").cloned() else { return Ok(()) };
    let (table, key) = (kind.info().table.clone(), ObjectKey::new(NAMESPACE, NAME));
    while let Some(stored) = core.store.get(&table, &key) {
        let mut object = stored.value();
        if object["data"][FIELD] == pem {
            return Ok(());
        }
        object["data"][FIELD] = pem.into();
        let expect = Expect::Version(stored.version);
        let write = Write { resource: table.clone(), key: key.clone(), expect, change: Change::Put(object) };
        match core.store.write(write).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
        }
    }
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {(FIELD): pem},
    });
    verbs::ensure(core, kind.as_ref(), NAMESPACE, object).await
}
