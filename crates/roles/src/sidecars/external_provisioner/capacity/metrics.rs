//! How many objects there are and should be.

use bowline_api::{CSIStorageCapacity, StorageClass};
use bowline_machinery::Cache;
use bowline_machinery::metrics::{GaugeFamily, Metrics};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::decide::is_published;
use super::memory::Segments;
use super::model::{Key, Settings};
use super::role::{is_ours, key_of};

const GOAL: GaugeFamily<0> = GaugeFamily {
    name: "csistoragecapacities_desired_goal",
    help: "Number of CSIStorageCapacity objects that are supposed to be managed automatically.",
    labels: [],
};
const CURRENT: GaugeFamily<0> = GaugeFamily {
    name: "csistoragecapacities_desired_current",
    help: "Number of CSIStorageCapacity objects that exist and are supposed to be managed automatically.",
    labels: [],
};
const OBSOLETE: GaugeFamily<0> = GaugeFamily {
    name: "csistoragecapacities_obsolete",
    help: "Number of CSIStorageCapacity objects that exist and will be deleted automatically. Objects that exist and may need an update are not considered obsolete and therefore not included in this value.",
    labels: [],
};

/// Counts whenever the metrics are read.
pub(super) fn count(
    metrics: &Metrics,
    settings: Arc<Settings>,
    segments: Arc<Segments>,
    classes: Cache<StorageClass>,
    objects: Cache<CSIStorageCapacity>,
) {
    metrics.on_scrape(move |metrics| {
        let classes = classes.list();
        let segments = segments.list();
        let wanted: BTreeSet<Key> = classes
            .iter()
            .filter(|class| is_published(&settings, class))
            .flat_map(|class| segments.iter().map(move |segment| (class, segment.clone())))
            .map(|(class, segment)| Key::Pair {
                class: class.metadata.name.clone().unwrap_or_default(),
                segment,
            })
            .collect();
        let objects = objects.list();
        let ours: Vec<Key> = objects.iter().filter(|o| is_ours(&settings, o)).map(|o| key_of(o)).collect();
        let there: BTreeSet<&Key> = ours.iter().filter(|key| wanted.contains(key)).collect();
        metrics.set(&GOAL, [], wanted.len() as f64);
        metrics.set(&CURRENT, [], there.len() as f64);
        metrics.set(&OBSOLETE, [], (ours.len() - there.len()) as f64);
    });
}
