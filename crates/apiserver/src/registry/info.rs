//! Everything about a kind that is not a function. Kinds of this build and kinds that clients define look alike.

use std::borrow::Cow;
use std::sync::Arc;

use crate::kinds::{Column, DeleteReply};
use crate::status::Resource;

/// Text that is part of the program, or of a definition that a client stored.
pub type Text = Cow<'static, str>;

/// Verbs of an ordinary resource, sorted as upstream sorts them.
pub const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

#[derive(Debug, Clone)]
pub struct KindInfo {
    pub group: Text,
    pub version: Text,
    pub kind: Text,
    /// `v1` or `group/version`.
    pub api_version: Text,
    /// Where objects are stored: `plural` or `plural.group`, whatever the version.
    pub table: Arc<str>,
    pub names: KindNames,
    pub namespaced: bool,
    /// What clients may do with the main resource, for discovery.
    pub verbs: &'static [&'static str],
    pub status: bool,
    pub scale: Option<Scale>,
    /// Subresources beside `status` and `scale`, for discovery.
    pub subresources: &'static [Subresource],
    pub unconditional_update: bool,
    pub create_on_update: bool,
    pub generation: bool,
    pub delete_reply: DeleteReply,
    pub columns: Cow<'static, [Column]>,
    pub field_labels: Vec<Text>,
}

/// What discovery says of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindNames {
    /// Lower-case plural: the path segment.
    pub plural: Text,
    pub singular: Text,
    pub short: Vec<Text>,
    pub categories: Vec<Text>,
}

/// Where the `scale` subresource finds its fields, as paths of names from the root of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: Vec<Text>,
    pub status_replicas: Vec<Text>,
    /// A selector as text, or as a LabelSelector object.
    pub selector: Option<Vec<Text>>,
}

/// A subresource with a kind of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    pub verbs: &'static [&'static str],
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
}

impl KindInfo {
    pub fn resource(&self) -> Resource<'_> {
        Resource { group: &self.group, plural: &self.names.plural }
    }
}
