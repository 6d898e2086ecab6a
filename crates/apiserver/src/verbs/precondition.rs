//! A change may say which object it is meant for, and which version of it.

use bowline_api::ObjectKey;
use serde_json::Value;

use super::Call;
use crate::custom;
use crate::metadata;
use crate::registry::KindInfo;
use crate::status::Status;

/// An object with a uid is meant for that one and no other.
pub fn check_uid(call: &Call, object: &Value, old: &Value) -> Result<(), Status> {
    check(call, "UID", metadata::text(object, "uid"), metadata::text(old, "uid"))
}

/// One with a version is meant for the object at that version.
pub fn check_version(call: &Call, object: &Value, old: &Value) -> Result<(), Status> {
    let version = |object| metadata::text(object, "resourceVersion");
    check(call, "ResourceVersion", version(object), version(old))
}

fn check(call: &Call, what: &str, own: &str, found: &str) -> Result<(), Status> {
    if own.is_empty() || own == found {
        return Ok(());
    }
    // Upstream's storage says so, and its words reach the client as they are.
    let key = upstream_key(call.info(), call.kind.custom().is_some(), &call.key());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {own}, {what} in object meta: {found}"
    );
    Err(Status::conflict(call.info().resource(), call.name(), &why))
}

/// Where upstream would store an object.
fn upstream_key(info: &KindInfo, defined: bool, key: &ObjectKey) -> String {
    let (group, plural) = (info.group.as_ref(), info.names.plural.as_ref());
    let table = match (group, plural) {
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        _ if defined || *info.table == *custom::TABLE => format!("{group}/{plural}"),
        _ => plural.to_owned(),
    };
    let within = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
    format!("/registry/{table}/{within}{}", key.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::register::register;
    use crate::registry::Registry;

    #[test]
    fn keys_are_named_as_upstream_names_them() {
        let mut registry = Registry::new();
        register(&mut registry);
        let (inside, alone) = (ObjectKey::new("team", "a"), ObjectKey::cluster("a"));
        let table = [
            (("", "v1", "configmaps"), false, &inside, "/registry/configmaps/team/a"),
            (("", "v1", "nodes"), false, &alone, "/registry/minions/a"),
            (("storage.k8s.io", "v1", "storageclasses"), false, &alone, "/registry/storageclasses/a"),
            (("apps", "v1", "deployments"), false, &inside, "/registry/deployments/team/a"),
            (("apps", "v1", "deployments"), true, &inside, "/registry/apps/deployments/team/a"),
        ];
        for ((group, version, plural), defined, key, expected) in table {
            let kind = registry.kind(group, version, plural).expect("a kind of this build");
            assert_eq!(upstream_key(kind.info(), defined, key), expected);
        }
    }
}
