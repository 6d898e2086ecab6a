//! What every sidecar does first: it waits for the driver and asks who it is.

use std::path::Path;
use std::time::Duration;

use crate::csi::Driver;
use crate::identity::Identity;
use crate::ports::{Ports, RunError};
use crate::queue::Backoff;

/// A driver that has said who it is.
#[derive(Clone)]
pub struct Sidecar {
    pub driver: Driver,
    pub identity: Identity,
    /// Longest time for one CSI call.
    pub timeout: Duration,
    pub backoff: Backoff,
    /// The namespace of what the sidecar stores for itself; empty if there is none that is its own.
    pub namespace: String,
}

impl Sidecar {
    /// Waits for the driver behind `address`. `component` is the sidecar's name in the journal.
    pub async fn connect(
        ports: &Ports,
        component: &'static str,
        address: &Path,
        timeout: Duration,
        backoff: Backoff,
    ) -> Result<Self, RunError> {
        let driver = Driver::at(&ports.host, address);
        let questions = ports.questions(component).measured(&ports.metrics, "");
        let identity = Identity::ask(&driver, &questions, timeout).await?;
        tracing::info!(sidecar = component, driver = identity.name, "connected");
        Ok(Self { driver, identity, timeout, backoff, namespace: "default".to_owned() })
    }

    /// The same, storing in this namespace.
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// Ends when the driver was restarted, as upstream's sidecars do: what it can do was asked at the start.
    pub async fn replaced(&self) -> RunError {
        self.driver.reconnected().await;
        RunError::Refused(format!("lost the connection to CSI driver {}", self.identity.name))
    }
}
