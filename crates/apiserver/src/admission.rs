//! Admission: what the server itself changes in, or refuses of, an object beyond the rules of its kind.
//!
//! A plugin is registered with [`Registry::admit`](crate::registry::Registry::admit) and sees every create,
//! update and deletion of every kind, in order of registration. Per write the steps are, as upstream has them:
//!
//! 1. the body is decoded and defaulted,
//! 2. [`Admission::admit`] of every plugin may change the object,
//! 3. metadata is filled in, `prepare_*` and `validate*` of the kind run,
//! 4. [`Admission::validate`] of every plugin may refuse what is about to be stored.
//!
//! Plugins are synchronous and pure but for the lister, so a write never waits for anything but the disk.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use crate::auth::{Access, User};
use crate::status::Status;

/// What a client wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    /// PUT and PATCH alike.
    Update,
    /// Only [`Admission::validate`] runs, on what is stored.
    Delete,
}

/// What admission leaves behind beside its verdict. Belongs to one HTTP request, however often its write is tried.
#[derive(Debug, Default)]
pub struct AdmissionNotes(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    warnings: Vec<String>,
    audit: BTreeMap<String, String>,
    rules_passed: bool,
}

impl AdmissionNotes {
    fn with<T>(&self, use_notes: impl FnOnce(&mut Notes) -> T) -> T {
        use_notes(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a `Warning` header with the answer.
    pub fn warn(&self, text: String) {
        self.with(|notes| notes.warnings.push(text));
    }

    /// Adds an annotation to the audit event. The first value of a key stays, as upstream has it.
    pub fn annotate(&self, key: String, value: String) {
        self.with(|notes| {
            notes.audit.entry(key).or_insert(value);
        });
    }

    /// The object obeys the rules of its kind: a client that is refused later still hears the kind's warnings.
    pub fn pass_rules(&self) {
        self.with(|notes| notes.rules_passed = true);
    }

    pub fn rules_passed(&self) -> bool {
        self.with(|notes| notes.rules_passed)
    }

    pub fn warnings(&self) -> Vec<String> {
        self.with(|notes| notes.warnings.clone())
    }

    pub fn audit_annotations(&self) -> BTreeMap<String, String> {
        self.with(|notes| notes.audit.clone())
    }
}

/// The write under way.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    pub operation: Operation,
    /// Empty for the core group.
    pub group: &'a str,
    pub plural: &'a str,
    pub kind: &'a str,
    /// Empty for the main resource, else e.g. `status`.
    pub subresource: &'a str,
    /// Empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// On a create with `generateName` the name made up for it.
    pub name: &'a str,
    /// What is stored now; absent on create.
    pub old: Option<&'a Value>,
    pub user: &'a User,
    pub now: Timestamp,
    pub notes: &'a AdmissionNotes,
}

impl AdmissionRequest<'_> {
    /// Whether this is a write of the main resource of a kind.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural && self.subresource.is_empty()
    }
}

/// Other objects, as they are now. Objects come as JSON; decode them with `serde_json::from_value`.
pub trait Lister {
    /// `namespace` is empty for cluster-scoped kinds.
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;
    /// All objects of a kind in order of namespace and name.
    fn list(&self, group: &str, plural: &str) -> Vec<Value>;
    /// All objects of a kind in a namespace, in order of name, as JSON text: for callers that read only parts.
    fn texts(&self, _group: &str, _plural: &str, _namespace: &str) -> Vec<Bytes> {
        Vec::new()
    }
    /// What else the user of a request may do.
    fn access(&self) -> Option<&Access> {
        None
    }
}

/// One admission plugin.
pub trait Admission: Send + Sync + 'static {
    /// May change the object or refuse it, before metadata is filled and rules are checked.
    fn admit(
        &self,
        _request: &AdmissionRequest<'_>,
        _object: &mut Value,
        _lister: &dyn Lister,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// May refuse what passed the rules of its kind.
    fn validate(
        &self,
        _request: &AdmissionRequest<'_>,
        _object: &Value,
        _lister: &dyn Lister,
    ) -> Result<(), Status> {
        Ok(())
    }
}
