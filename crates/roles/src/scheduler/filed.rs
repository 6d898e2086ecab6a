//! Under which values the caches file pods and capacities.

use bowline_api::pod;

use super::observe::unscheduled;
use super::role::Scheduler;
use crate::indexes;

/// Pods that are ours and have no node, under one value.
pub(super) const UNSCHEDULED: &str = "unscheduled-pods";
/// Those among them that found no place, under one value.
pub(super) const UNSCHEDULABLE: &str = "unschedulable-pods";
pub(super) const CAPACITIES_BY_CLASS: &str = "capacities-by-class";
/// The one value of an index that is a set.
pub(super) const ALL: &str = "";

impl Scheduler {
    pub(super) fn add_indexes(&self) {
        indexes::pods(&self.pods);
        indexes::live_pods(&self.pods);
        indexes::claims_to_bind(&self.claims);
        indexes::volumes_to_bind(&self.volumes);
        indexes::attachments(&self.attachments);
        self.pods.index(UNSCHEDULED, |p| in_set(unscheduled(p)));
        self.pods.index(UNSCHEDULABLE, |p| in_set(unscheduled(p) && pod::unschedulable(p)));
        self.capacities.index(CAPACITIES_BY_CLASS, |c| vec![c.storage_class_name.clone()]);
    }
}

fn in_set(there: bool) -> Vec<String> {
    there.then(|| ALL.to_owned()).into_iter().collect()
}
