//! The kubeconfig `kubectl` finds its way with.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::certs::{Authority, CertError, Credentials, write_private};

/// Cluster, user and context are all called this.
const NAME: &str = "bowline";

/// A kubeconfig with everything inside it, for `https://host:port`.
pub fn kubeconfig(server: &str, authority: &Authority, client: &Credentials) -> String {
    let encoded = |text: &str| STANDARD.encode(text);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: {NAME}\n\
         clusters:\n\
         - name: {NAME}\n\
         \x20 cluster:\n\
         \x20   server: {server}\n\
         \x20   certificate-authority-data: {authority}\n\
         users:\n\
         - name: {NAME}\n\
         \x20 user:\n\
         \x20   client-certificate-data: {certificate}\n\
         \x20   client-key-data: {key}\n\
         contexts:\n\
         - name: {NAME}\n\
         \x20 context:\n\
         \x20   cluster: {NAME}\n\
         \x20   user: {NAME}\n\
         \x20   namespace: default\n",
        authority = encoded(authority.certificate()),
        certificate = encoded(&client.certificate),
        key = encoded(&client.key),
    )
}

/// Writes it for its owner alone, whole or not at all.
pub fn write_kubeconfig(
    path: &Path,
    server: &str,
    authority: &Authority,
    client: &Credentials,
) -> Result<(), CertError> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|source| CertError::File {
            what: "create",
            path: parent.to_owned(),
            source,
        })?;
    }
    write_private(path, kubeconfig(server, authority, client).as_bytes())
}
