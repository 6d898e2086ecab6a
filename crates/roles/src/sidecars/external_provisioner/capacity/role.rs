//! The role: flags, watches.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::StorageClass;
use bowline_api::volume::{claim_class, csi, volume_class};
use bowline_api::{CSINode, CSIStorageCapacity, Meta, Node, PersistentVolume, PersistentVolumeClaim, keys};
use bowline_machinery::csi::Driver;
use bowline_machinery::flags::duration;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Change, Context, EffectError, Effects, Ports, Queue, Role, RunError, Scope};
use bowline_machinery::{Sidecar, Step, Watches};
use clap::ArgAction;
use k8s_openapi::api::core::v1::NodeSelectorTerm;

use super::decide::decide;
use super::memory::{Answers, Segments};
use super::model::{Action, Key, Observed, Segment, Settings};
use super::{metrics, owner};
use crate::sidecars::external_provisioner::decide::selected_node;
use crate::sidecars::external_provisioner::node;

/// Objects by class and segment.
pub(super) const BY_PAIR: &str = "capacities-by-class-and-segment";

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Publish how much room there is, for the scheduler
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub enable_capacity: bool,
    /// How often the driver is asked
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "1m")]
    pub capacity_poll_interval: Duration,
    /// Who owns the objects: 0 the pod, 1 its controller, 2 the controller of that one; negative: nothing
    #[arg(long, value_name = "LEVEL", default_value_t = 1, allow_hyphen_values = true)]
    pub capacity_ownerref_level: i64,
    /// Publish for classes that bind immediately, too
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub capacity_for_immediate_binding: bool,
}

/// Without a pause the driver would be asked all the time.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval.is_zero() { Err("it must be greater than zero".to_owned()) } else { Ok(interval) }
}

/// What the process knows of its surroundings.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// NAMESPACE.
    pub namespace: Option<String>,
    /// POD_NAME.
    pub pod: Option<String>,
    /// The node that this provisioner serves, if it serves only one.
    pub node: Option<String>,
}

/// The role, as its steps see it.
pub struct CapacityPublisher {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) driver: Driver,
    pub(super) timeout: Duration,
    backoff: Backoff,
    pub(super) interval: Duration,
    pub(super) settings: Arc<Settings>,
    pub(super) classes: Cache<StorageClass>,
    pub(super) objects: Cache<CSIStorageCapacity>,
    volumes: Cache<PersistentVolume>,
    claims: Cache<PersistentVolumeClaim>,
    /// `None` where there is only the own segment.
    pub(super) nodes: Option<(Cache<CSINode>, Cache<Node>)>,
    pub(super) own_segment: Option<Segment>,
    pub(super) answers: Answers,
    pub(super) segments: Arc<Segments>,
    queue: Queue<Key>,
}

#[async_trait]
impl Role for CapacityPublisher {
    /// The name of upstream's queue.
    const NAME: &'static str = "csistoragecapacity";
    const COMPONENT: &'static str = "external-provisioner";
    /// Upstream's default is one, with which a slow driver holds up all objects.
    const WORKERS: usize = 8;
    type Settings = (Sidecar, Flags, Environment);
    type Key = Key;
    type Observed = (Key, Observed);
    type Action = Action;
    type Why = Infallible;

    async fn start(
        context: Context<Key>,
        (sidecar, flags, environment): Self::Settings,
    ) -> Result<Self, RunError> {
        let Context { ports, effects, queue, .. } = context;
        let Sidecar { driver, identity, timeout, backoff, .. } = sidecar;
        let effects = effects.measured(&ports.metrics, &identity.name);
        let settings = Arc::new(settings(&effects, &identity.name, &flags, &environment).await?);
        // Only where no other role of this process watches all of them.
        let labels = format!(
            "{}={},{}={}",
            keys::CAPACITY_DRIVER,
            settings.driver,
            keys::CAPACITY_MANAGED_BY,
            settings.managed_by
        );
        let ours = Scope { labels: Some(labels), ..Scope::namespace(&settings.namespace) };
        let _ = ports.informers.restrict::<CSIStorageCapacity>(ours);
        let own_segment = match &environment.node {
            None => None,
            Some(_) => Some(node::ask(&driver, &ports, timeout).await?.segment),
        };
        let informers = &ports.informers;
        let role = Self {
            classes: informers.of(),
            objects: informers.of(),
            volumes: informers.of(),
            claims: informers.of(),
            nodes: own_segment.is_none().then(|| (informers.of(), informers.of())),
            own_segment,
            answers: Answers::default(),
            segments: Arc::default(),
            interval: flags.capacity_poll_interval,
            settings,
            queue,
            ports,
            effects,
            driver,
            timeout,
            backoff,
        };
        role.objects.index(BY_PAIR, |object| match key_of(object) {
            Key::Pair { class, segment } => vec![pair_text(&class, &segment)],
            Key::Stray(_) | Key::Topology => Vec::new(),
        });
        let (classes, objects) = (role.classes.clone(), role.objects.clone());
        metrics::count(&role.ports.metrics, role.settings.clone(), role.segments.clone(), classes, objects);
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.classes, Self::class_changed).on(&self.objects, Self::object_changed);
        watches.on(&self.volumes, Self::volume_changed).on(&self.claims, Self::claim_changed);
        if let Some((csi_nodes, nodes)) = &self.nodes {
            watches.on(csi_nodes, Self::csi_node_changed).on(nodes, Self::node_changed);
        }
    }
    async fn begin(&self) -> Result<(), RunError> {
        self.queue.add(Key::Topology);
        Ok(())
    }
    async fn observe(&self, key: &Key) -> Result<Option<(Key, Observed)>, EffectError> {
        Ok(self.see(key).map(|seen| (key.clone(), seen)))
    }
    fn decide((_, seen): &(Key, Observed)) -> Step<Action, Infallible> {
        decide(seen)
    }
    async fn act(&self, action: Action, (key, seen): (Key, Observed)) -> Result<(), EffectError> {
        self.perform(key, action, seen).await
    }
    /// The driver's answer is good for one interval.
    fn look_again(&self, key: &Key) -> Option<Duration> {
        match key {
            Key::Pair { segment, .. } if self.segments.get(segment) => Some(self.interval),
            Key::Pair { .. } | Key::Stray(_) | Key::Topology => None,
        }
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

async fn settings(
    effects: &Effects,
    driver: &str,
    flags: &Flags,
    environment: &Environment,
) -> Result<Settings, RunError> {
    let refused = |text: &str| RunError::Refused(text.to_owned());
    let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let namespace = given(&environment.namespace)
        .ok_or_else(|| refused("need NAMESPACE env variable for CSIStorageCapacity objects"))?;
    let level = flags.capacity_ownerref_level;
    let owner = if level < 0 {
        None
    } else {
        let pod = given(&environment.pod)
            .ok_or_else(|| refused("need POD_NAME env variable to determine CSIStorageCapacity owner"))?;
        let found = owner::find(effects, &namespace, &pod, level).await;
        let what = "look up owner(s) of pod";
        Some(found.map_err(|source| RunError::Effect { what, source })?)
    };
    Ok(Settings {
        driver: driver.to_owned(),
        managed_by: node::managed_by(environment.node.as_deref()),
        namespace,
        owner,
        immediate: flags.capacity_for_immediate_binding,
    })
}

/// Whether an object carries both of our labels.
pub(super) fn is_ours(settings: &Settings, object: &CSIStorageCapacity) -> bool {
    object.namespace() == settings.namespace
        && object.label(keys::CAPACITY_DRIVER) == Some(&settings.driver)
        && object.label(keys::CAPACITY_MANAGED_BY) == Some(&settings.managed_by)
}

/// What an object stands for. An empty selector and an absent one are the same.
pub(super) fn key_of(object: &CSIStorageCapacity) -> Key {
    let selector = object.node_topology.clone().unwrap_or_default();
    if selector.match_expressions.is_some_and(|expressions| !expressions.is_empty()) {
        return Key::Stray(object.name().to_owned());
    }
    Key::Pair { class: object.storage_class_name.clone(), segment: selector.match_labels.unwrap_or_default() }
}

pub(super) fn pair_text(class: &str, segment: &Segment) -> String {
    format!("{class} {segment:?}")
}

/// Which keys a change concerns.
impl CapacityPublisher {
    fn class_changed(&self, change: &Change<StorageClass>, _: &Queue<Key>) {
        change.latest().into_iter().for_each(|class| self.refresh_class(class.name()));
    }

    fn object_changed(&self, change: &Change<CSIStorageCapacity>, queue: &Queue<Key>) {
        change.sides().filter(|object| is_ours(&self.settings, object)).for_each(|o| queue.add(key_of(o)));
    }

    fn csi_node_changed(&self, _: &Change<CSINode>, queue: &Queue<Key>) {
        queue.add(Key::Topology);
    }

    /// A node's status changes all the time, its labels seldom.
    fn node_changed(&self, change: &Change<Node>, queue: &Queue<Key>) {
        let labels = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.metadata.labels.clone());
        if labels(&change.old) != labels(&change.new) {
            queue.add(Key::Topology);
        }
    }

    /// A volume that was made or deleted changes the room where it is; without a place, the room of its class.
    fn volume_changed(&self, change: &Change<PersistentVolume>, _: &Queue<Key>) {
        let appeared = match (&change.old, &change.new) {
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(_), Some(_)) | (None, None) => return,
        };
        let ours = |volume: &&Arc<PersistentVolume>| {
            csi(volume).is_some_and(|csi| csi.driver == self.settings.driver)
        };
        let Some(volume) = change.latest().filter(ours) else { return };
        let places = places(volume);
        if places.is_empty() && appeared {
            self.refresh_class(volume_class(volume));
        }
        places.iter().for_each(|segment| self.refresh_segment(segment));
    }

    /// A claim that goes back to the scheduler found no room.
    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, _: &Queue<Key>) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return };
        if selected_node(old).is_some() && selected_node(new).is_none() {
            self.refresh_class(claim_class(new).unwrap_or_default());
        }
    }

    fn refresh_class(&self, class: &str) {
        for segment in self.segments.list() {
            self.refresh(Key::Pair { class: class.to_owned(), segment });
        }
    }

    pub(super) fn refresh_segment(&self, segment: &Segment) {
        let classes = self.classes.list().into_iter();
        for class in classes.filter(|class| class.provisioner == self.settings.driver) {
            self.refresh(Key::Pair { class: class.name().to_owned(), segment: segment.clone() });
        }
    }

    /// The driver is asked again.
    fn refresh(&self, key: Key) {
        self.answers.forget(&key);
        self.queue.add(key);
    }
}

/// The places that a volume's affinity names.
fn places(volume: &PersistentVolume) -> Vec<Segment> {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let terms = affinity.and_then(|affinity| affinity.required.as_ref());
    let place = |term: &NodeSelectorTerm| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        expressions.iter().map(|e| Some((e.key.clone(), e.values.as_ref()?.first()?.clone()))).collect()
    };
    terms.into_iter().flat_map(|selector| &selector.node_selector_terms).filter_map(place).collect()
}
