//! Which API server, and as whom: chosen as upstream's programs choose.
//!
//! `--kubeconfig`, or else the service account of the pod. Never `~/.kube/config`: a sidecar that starts on an
//! administrator's machine must not act with the administrator's rights. `KUBECONFIG` counts only where upstream lets it
//! (csi-provisioner), and then it wins over the flag.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::{ClientError, one_line};

/// Whether the variable `KUBECONFIG` of the process counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Environment {
    Ignored,
    /// Its value, which wins over the flag unless it is empty or absent.
    Kubeconfig(Option<OsString>),
}

/// Where a client is to come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    /// KUBERNETES_SERVICE_HOST and _PORT, and the mounted token, which is read again when it rotates.
    ServiceAccount,
}

impl Source {
    /// Go programs take an empty path as an absent one.
    pub fn choose(flag: Option<&Path>, environment: &Environment) -> Self {
        let variable = match environment {
            Environment::Kubeconfig(Some(path)) => Some(Path::new(path)),
            Environment::Kubeconfig(None) | Environment::Ignored => None,
        };
        let given = |path: &&Path| !path.as_os_str().is_empty();
        match variable.filter(given).or(flag.filter(given)) {
            Some(path) => Self::File(path.to_owned()),
            None => Self::ServiceAccount,
        }
    }

    pub(super) async fn load(&self) -> Result<Config, ClientError> {
        match self {
            Self::File(path) => from_file(path).await,
            Self::ServiceAccount => {
                Config::incluster().map_err(|error| ClientError::NotInPod { why: one_line(&error) })
            }
        }
    }
}

async fn from_file(path: &Path) -> Result<Config, ClientError> {
    let shown = path.display().to_string();
    let file = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(why, _) => {
            ClientError::Read { path: shown.clone(), why: why.to_string() }
        }
        other => ClientError::Unusable { path: shown.clone(), why: one_line(&other) },
    })?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| ClientError::Unusable { path: shown.clone(), why: one_line(&error) })?;
    // A server without TLS cannot take a certificate and is one for tests or behind a proxy that logs in.
    if config.cluster_url.scheme_str() == Some("https") && !has_credentials(&config.auth_info) {
        return Err(ClientError::NoCredentials { path: shown });
    }
    Ok(config)
}

fn has_credentials(user: &AuthInfo) -> bool {
    let certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    let token = user.token.is_some() || user.token_file.is_some();
    certificate || token || user.username.is_some() || user.exec.is_some() || user.auth_provider.is_some()
}
