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
    bowline_host::real::private_parents(path).map_err(|source| CertError::File {
        what: "create the directory of",
        path: path.to_owned(),
        source,
    })?;
    match write_private(path, kubeconfig(server, authority, client).as_bytes()) {
        // On a full disk the one from before will do; without the server nothing could be deleted.
        Err(CertError::File { source, .. })
            if source.kind() == std::io::ErrorKind::StorageFull && path.exists() =>
        {
            tracing::warn!(path = %path.display(), "the disk is full: the kubeconfig stays as it was");
            Ok(())
        }
        written => written,
    }
}
