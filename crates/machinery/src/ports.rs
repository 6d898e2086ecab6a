//! What every role is given.

use bowline_host::Host;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::effect::{EffectError, Effects};
use crate::events::{Recorder, Sink};
use crate::informers::Informers;
use crate::journal::Journal;

/// Why a role ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{what}")]
    Effect { what: &'static str, source: EffectError },
    #[error("{what} `{path}`")]
    Io { what: &'static str, path: String, source: std::io::Error },
    #[error("{0}")]
    Refused(String),
}

/// The world as a role may touch it; cheap to clone.
#[derive(Clone)]
pub struct Ports {
    pub client: Client,
    pub host: Host,
    pub informers: Informers,
    pub journal: Journal,
    /// Cancelled when the process is to end; work in flight is finished first.
    pub stop: CancellationToken,
    events: Sink,
}

impl Ports {
    pub fn new(client: Client, host: Host, journal: Journal, stop: CancellationToken) -> Self {
        let informers = Informers::new(client.clone(), host.random.clone(), stop.clone());
        let events = Sink::start(client.clone(), host.clone(), stop.clone());
        Self { client, host, informers, journal, stop, events }
    }

    /// The effects of a component, under its upstream name.
    pub fn effects(&self, component: &'static str) -> Effects {
        Effects::new(
            component,
            self.client.clone(),
            self.host.clone(),
            self.journal.clone(),
            self.informers.clone(),
        )
    }

    /// Writes Kubernetes events as this component.
    pub fn recorder(&self, component: impl Into<String>) -> Recorder {
        Recorder::new(component.into(), self.events.clone())
    }
}
