//! Who sends a request.

use std::collections::BTreeMap;

/// In the group of those who may do everything.
pub const MASTERS: &str = "system:masters";
/// The server itself, and what runs in its process.
const SERVER: &str = "system:apiserver";

/// Somebody who was recognised.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The server itself: may do everything.
    pub fn server() -> Self {
        Self { name: SERVER.into(), groups: vec![MASTERS.into()], ..Self::default() }
    }
}
