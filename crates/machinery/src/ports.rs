//! What every role is given.

use std::sync::Arc;

use bowline_host::Host;
use tokio_util::sync::CancellationToken;

use crate::backlog::Backlog;
use crate::client::{Client, Clients, Subject};
use crate::effect::{EffectError, Effects};
use crate::events::{Recorder, Sink};
use crate::informers::Informers;
use crate::journal::Journal;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::starts::Starts;

/// Why a role ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{what}")]
    Effect { what: &'static str, source: EffectError },
    #[error("{what} `{path}`")]
    Io { what: &'static str, path: String, source: std::io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("lost the lease `{0}`")]
    LeaseLost(String),
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
    pub metrics: Metrics,
    /// Which roles of the process still fill their caches.
    pub starts: Starts,
    /// What waits in the queues of all roles.
    pub backlog: Backlog,
    /// The lease without which no effect may begin; `None` where there is no other replica.
    pub leadership: Option<Leadership>,
    events: Sink,
    /// `None` where every role acts as the process itself.
    clients: Option<Arc<dyn Clients>>,
}

impl Ports {
    pub fn new(client: Client, host: Host, journal: Journal, stop: CancellationToken) -> Self {
        let informers = Informers::new(client.clone(), host.random.clone(), stop.clone());
        let events = Sink::start(client.clone(), host.clone(), stop.clone());
        let metrics = Metrics::new(host.clock.now());
        let starts = Starts::default();
        Self {
            client,
            host,
            informers,
            journal,
            stop,
            metrics,
            starts,
            backlog: Backlog::default(),
            leadership: None,
            events,
            clients: None,
        }
    }

    /// The same, with a stop of its own.
    pub fn until(&self, stop: CancellationToken) -> Self {
        Self { stop, ..self.clone() }
    }

    /// The same as another user: with its own caches, and its own events.
    pub fn as_user(&self, client: Client) -> Self {
        let informers = Informers::new(client.clone(), self.host.random.clone(), self.stop.clone());
        let events = Sink::start(client.clone(), self.host.clone(), self.stop.clone());
        Self { client, informers, events, ..self.clone() }
    }

    /// The same, with caches of its own: what it may watch is not what the others may.
    pub fn with_own_caches(&self) -> Self {
        let informers = Informers::new(self.client.clone(), self.host.random.clone(), self.stop.clone());
        Self { informers, ..self.clone() }
    }

    /// With effects only while the lease is held.
    pub fn led_by(self, leadership: Leadership) -> Self {
        self.informers.stand_by();
        Self { leadership: Some(leadership), ..self }
    }

    /// Where roles have identities of their own.
    pub fn with_clients(self, clients: Arc<dyn Clients>) -> Self {
        Self { clients: Some(clients), ..self }
    }

    /// The same for a role that acts as `subject`: its effects and events are authorized as this subject's. Caches are
    /// shared, and filled with the rights of the process, as upstream's are.
    pub fn acting_as(&self, subject: &Subject) -> Result<Self, RunError> {
        let Some(clients) = &self.clients else { return Ok(self.clone()) };
        let client = clients.client(subject).map_err(|error| RunError::Refused(error.to_string()))?;
        let events = Sink::start(client.clone(), self.host.clone(), self.stop.clone());
        Ok(Self { client, events, ..self.clone() })
    }

    /// The effects of a component, under its upstream name.
    pub fn effects(&self, component: &'static str) -> Effects {
        let effects = self.questions(component);
        match &self.leadership {
            Some(leadership) => effects.led_by(leadership.clone()),
            None => effects,
        }
    }

    /// For questions that a standby asks, too, such as a driver's name. They change nothing.
    pub fn questions(&self, component: &'static str) -> Effects {
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
