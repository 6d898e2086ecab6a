//! Health and metrics over HTTP: `--http-endpoint` of sidecars, `--secure-port` of kube-* programs.
//!
//! Binding comes first and is an error of the start; serving lasts until the program stops, and is independent of
//! leader election.

mod access;
mod health;
mod listen;
mod pages;
mod places;
mod review;
mod tls;

#[cfg(test)]
mod tests;

pub use access::{Access, AllowedPaths, Denied, Everyone};
pub use health::{Check, Checks};
pub use listen::{Bound, ServeError, listen};
pub use pages::{Answer, Pages};
pub use places::{Place, Places};
pub use review::{Attributes, CertificateUser, Kept, Reviewer, UntrustedCertificate, User, path_attributes};
pub use tls::{CertificateReader, Client, Shown, Tls, TlsError};
