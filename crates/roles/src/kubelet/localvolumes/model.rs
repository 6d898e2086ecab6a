//! What is seen of one volume, and what is done about it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::Pod;

use super::payload::{Files, Payload};
use super::plan::{Medium, Plan, Plugin, Source, TokenSource};
use super::tokens::Token;
use crate::kubelet::Reported;

/// What of a volume is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    #[default]
    Absent,
    /// It may be there.
    Uncertain,
    Present,
}

/// What the pod makes of the volume now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    Ready,
    /// Containers may still use it.
    AsItIs,
    /// The node agent stops: nothing stays mounted, what is on disk waits for the next start.
    Unmounted,
    Gone,
}

/// What this process knows about one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub plugin: Plugin,
    pub directory: Presence,
    /// A filesystem in memory.
    pub mount: Presence,
    /// What was written last, by this process.
    pub written: Option<Arc<Payload>>,
    /// The group that it was given to, by this process.
    pub group: Option<u32>,
    /// By the path of their file.
    pub tokens: BTreeMap<String, Token>,
    /// The last problem that the pod was told of.
    pub told: Option<Reported>,
    /// Its directory could not be removed at the last try; its pod does not wait for that.
    pub removal_failed: bool,
}

impl State {
    pub fn new(plugin: Plugin, presence: Presence) -> Self {
        Self {
            plugin,
            directory: presence,
            mount: presence,
            written: None,
            group: None,
            tokens: BTreeMap::new(),
            told: None,
            removal_failed: false,
        }
    }

    /// Whether the pod's end waits for this volume: a mount is always waited for.
    pub fn holds_pod(&self) -> bool {
        self.mount != Presence::Absent || !self.removal_failed
    }

    /// Containers may use it. Once they may, they always may: content that cannot be brought up to date stays as it is.
    pub fn ready(&self, plan: &Plan) -> bool {
        let mounted = plan.medium == Medium::Disk || self.mount == Presence::Present;
        let written = plan.sources.is_none() || self.written.is_some();
        let given = plan.group.is_none() || self.group == plan.group;
        self.directory == Presence::Present && mounted && given && written
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub uid: String,
    /// In the pod.
    pub name: String,
    /// The machine's uptime, as all times here.
    pub now: Duration,
    pub want: Want,
    /// Who may have containers is known: what nobody uses may be taken away.
    pub may_remove: bool,
    /// Pod and plan; `None` when the pod is gone.
    pub asked: Option<(Arc<Pod>, Plan)>,
    pub files: Files,
    pub state: State,
}

impl Observed {
    /// A token without which nothing can be written: there is none, or the one that there is has ended.
    pub fn token_missing(&self) -> Option<&TokenSource> {
        self.tokens().map(|(wanted, _)| wanted).find(|wanted| !self.has_good(wanted))
    }

    /// The token to be renewed next, and when.
    pub fn next_renewal(&self) -> Option<(&TokenSource, Duration)> {
        let renewals = self.tokens().filter_map(|(wanted, token)| Some((wanted, token?.renew_at)));
        renewals.min_by_key(|(_, at)| *at)
    }

    /// Whether there is a token that is accepted now.
    pub fn has_good(&self, wanted: &TokenSource) -> bool {
        self.state.tokens.get(&wanted.path).is_some_and(|token| token.expires > self.now)
    }

    fn tokens(&self) -> impl Iterator<Item = (&TokenSource, Option<&Token>)> {
        let sources = self.asked.iter().flat_map(|(_, plan)| plan.sources.iter().flatten());
        sources.filter_map(|source| match source {
            Source::Token(wanted) => Some((wanted, self.state.tokens.get(&wanted.path))),
            Source::Object { .. } | Source::Fields { .. } => None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    RequestToken(TokenSource),
    MakeDirectory,
    MountMemory(Option<u64>),
    /// Makes it belong to the pod's `fsGroup`.
    GiveToGroup(u32),
    Write(Arc<Payload>),
    /// Tells the pod why the volume cannot be made.
    Report(String),
    Unmount,
    /// Its directory and everything in it.
    Remove,
    Forget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Looking,
    Told(String, Duration),
    Renewal(Duration),
    InUse,
    NotCounted,
}

impl Why {
    /// When to look again even if nothing changes.
    pub fn until(&self) -> Option<Duration> {
        match self {
            Self::Renewal(at) | Self::Told(_, at) => Some(*at),
            Self::Looking | Self::InUse | Self::NotCounted => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Looking => f.write_str("what the volume is made of is being looked up"),
            Self::Told(text, _) => f.write_str(text),
            Self::Renewal(at) => write!(f, "a token is renewed at uptime {at:?}"),
            Self::InUse => f.write_str("containers may still use it"),
            Self::NotCounted => f.write_str("containers of an earlier process are not known yet"),
        }
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;
