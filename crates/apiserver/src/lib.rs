//! The API server: storage, rules of each kind, verbs, HTTP.
//!
//! Reading order: `field` and `kinds` (what a kind is), `store` (how writes are ordered and kept), then the verbs.

pub mod admission;
pub mod field;
pub mod kinds;
pub mod registry;
pub mod status;
pub mod store;
