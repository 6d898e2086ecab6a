//! Who sends a request, and whether they may.
//!
//! Reading order: [`User`], `authenticate` (who), `attributes` (what is asked), `authorize` with `rbac` and `node`
//! (whether), [`Access`] (all of it for one request). Requests from inside the process are trusted as
//! [`User::server`] unless they carry a [`User`] in their extensions.

mod access;
mod attributes;
pub mod audit;
mod authenticate;
mod authorize;
mod certificate;
mod der;
pub mod extension;
mod follow;
mod impersonate;
pub mod node;
pub mod rbac;
pub mod review;
mod static_tokens;
pub mod token;
mod user;

pub use access::{Access, Admitted, Refused, Settings};
pub use attributes::{Attributes, ResourceAttributes};
pub use authenticate::Identity;
pub use authorize::{Authorizer, Decision, Mode};
pub use certificate::{Holder, holder};
pub use static_tokens::{StaticTokens, TokenFileError};
pub use user::{MASTERS, User};

#[cfg(test)]
pub(crate) mod tests;
