//! One file per kind: its names, defaults, validation, immutability, status split, columns and selectors.
//!
//! Verbs, patches and watches know no kind; they go through [`Rules`].

pub mod age;
mod binding;
pub mod check;
pub mod column;

pub mod configmap;
pub mod csidriver;
pub mod csinode;
pub mod csistoragecapacity;
pub mod event;
pub mod event_v1;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod persistentvolume;
pub mod persistentvolumeclaim;
pub mod plain;
pub mod pod;
pub mod poddisruptionbudget;
pub mod priorityclass;
pub mod rbac;
pub mod secret;
pub mod service;
pub mod serviceaccount;
pub mod storageclass;
pub mod volumeattachment;
pub mod volumeattributesclass;
pub mod workload;

pub mod admission;
pub mod plugins;
pub mod register;
pub mod warnings;

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::field::Invalid;
use crate::registry::{Part, Scale, Subresource, Text, VERBS};

/// What discovery says of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Lower-case plural: the path segment.
    pub plural: &'static str,
    pub singular: &'static str,
    pub short: &'static [&'static str],
    pub categories: &'static [&'static str],
}

/// A column of the server-side table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: Text,
    /// `string`, `integer`, `boolean`, `date`.
    pub type_: Text,
    /// `name` for the first column, otherwise usually empty.
    pub format: Text,
    pub description: Text,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: i32,
}

/// What a successful DELETE answers once the object is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteReply {
    Object,
    Status,
}

/// How an object goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// At once, finalizers permitting.
    Now,
    /// After this many seconds, by whoever runs it (pods); `deletionTimestamp` is set that far ahead.
    Graceful(i64),
}

/// Objects of a kind that live in another kind's table, in the other's form.
#[derive(Debug, Clone, Copy)]
pub struct StoredAs {
    pub table: &'static str,
    /// From the stored form to this kind's.
    pub read: fn(Value) -> Value,
    /// From this kind's form to the stored one.
    pub write: fn(Value) -> Value,
}

/// What becomes of what a deleted object owns, unless the deletion says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependents {
    /// The garbage collector deletes it afterwards.
    Background,
    /// It stays: the custom of kinds that are older than the garbage collector.
    Orphan,
    /// The kind owns nothing, whatever a deletion says.
    None,
}

/// The rules of one kind. All functions are pure; time arrives as an argument.
pub trait Rules: Send + Sync + 'static {
    type Object: k8s_openapi::Resource
        + k8s_openapi::Metadata<Ty = ObjectMeta>
        + k8s_openapi::schemars::JsonSchema
        + Serialize
        + DeserializeOwned
        + Clone
        + Send
        + Sync
        + 'static;

    const NAMES: Names;
    const NAMESPACED: bool;
    /// What clients may do with the main resource.
    const VERBS: &'static [&'static str] = VERBS;
    /// Has a `status` subresource.
    const STATUS: bool = false;
    /// Subresources beside `status` and `scale`.
    const SUBRESOURCES: &'static [Subresource] = &[];
    /// PUT without a resourceVersion is allowed.
    const UNCONDITIONAL_UPDATE: bool = true;
    /// PUT of a missing object creates it.
    const CREATE_ON_UPDATE: bool = false;
    /// `metadata.generation` starts at 1 and grows when anything but metadata and status changes.
    const GENERATION: bool = false;
    const DELETE_REPLY: DeleteReply = DeleteReply::Status;
    const DEPENDENTS: Dependents = Dependents::Background;

    /// Where and how objects are stored, if not under the kind's own name and as they are.
    fn stored_as() -> Option<StoredAs> {
        None
    }

    /// Where the `scale` subresource finds its fields, for kinds that have one.
    fn scale() -> Option<Scale> {
        None
    }

    /// Fills what the client left out. Runs on every create and update, before validation.
    fn default_fields(_object: &mut Self::Object) {}
    /// Drops what a client may not set on create (status, …) and sets initial values.
    fn prepare_create(_object: &mut Self::Object, _now: jiff::Timestamp) {}
    /// Keeps what a main-resource update may not change (usually the status) as it was.
    fn prepare_update(_new: &mut Self::Object, _old: &Self::Object) {}
    /// Keeps what a status update may not change (usually the spec, sometimes metadata) as it was.
    fn prepare_status(_new: &mut Self::Object, _old: &Self::Object, _now: jiff::Timestamp) {}

    /// Rules beyond metadata, which is checked for all kinds alike.
    fn validate(object: &Self::Object) -> Vec<Invalid>;
    /// Rules for new objects only. [`Rules::validate`] runs as well.
    fn validate_create(_object: &Self::Object) -> Vec<Invalid> {
        Vec::new()
    }
    /// Rules of a new object, for kinds that ask more of it than of what is there already.
    fn validate_new(object: &Self::Object) -> Vec<Invalid> {
        Self::validate(object)
    }
    /// What an update may not change. [`Rules::validate`] runs as well.
    fn validate_update(_new: &Self::Object, _old: &Self::Object) -> Vec<Invalid> {
        Vec::new()
    }
    /// All that is wrong with an update, for kinds where upstream puts it together differently.
    fn validate_change(new: &Self::Object, old: &Self::Object) -> Vec<Invalid> {
        let mut errors = Self::validate(new);
        errors.extend(Self::validate_update(new, old));
        errors
    }
    fn validate_status(_new: &Self::Object, _old: &Self::Object) -> Vec<Invalid> {
        Vec::new()
    }
    /// Keeps what an update through a subresource of the kind's own may not change.
    fn prepare_part(_new: &mut Self::Object, _old: &Self::Object, _part: Part) {}
    /// Rules of such an update.
    fn validate_part(_new: &Self::Object, _old: &Self::Object, _part: Part) -> Vec<Invalid> {
        Vec::new()
    }
    /// Names of this kind: DNS-1123 subdomain unless it says otherwise.
    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::subdomain_errors(name)
    }
    /// `requested` is what the client asked for with gracePeriodSeconds.
    fn deletion(_object: &Self::Object, _requested: Option<i64>) -> Deletion {
        Deletion::Now
    }

    /// Why this object may not be deleted at all; the answer is 403 with this text.
    fn delete_refusal(_object: &Self::Object) -> Option<&'static str> {
        None
    }

    /// Table columns, without which a kind is printed as `Name, Created At`.
    fn columns() -> &'static [Column];
    /// Cells in the order of [`Rules::columns`].
    fn cells(object: &Self::Object, now: jiff::Timestamp) -> Vec<Value>;
    /// Field labels that selectors may use beside `metadata.name` and `metadata.namespace`.
    fn field_labels(_object: &Self::Object) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// The names that [`Rules::field_labels`] yields, for refusing others.
    const FIELD_LABELS: &'static [&'static str] = &[];
}
