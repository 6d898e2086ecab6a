//! Where the time of a journey goes.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_machinery::journal::Entry;

/// Calls that are the driver's and the kernel's own work, not ours.
const OWN_WORK: [&str; 5] =
    ["CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "start"];

/// Whether an entry is the driver's or the kernel's work.
pub fn is_own_work(entry: &Entry) -> bool {
    OWN_WORK.contains(&entry.action.as_str())
}

/// Gives every stretch of time to whoever ended it: the stretch between two effects belongs to the component that
/// did the second. Calls into driver and kernel are taken out and shown by their own names.
pub fn by_component(begin: jiff::Timestamp, entries: &[Entry]) -> BTreeMap<String, Duration> {
    let mut spent: BTreeMap<String, Duration> = BTreeMap::new();
    let mut last = begin;
    for entry in entries {
        let stretch = Duration::try_from(entry.at.duration_since(last)).unwrap_or_default();
        last = last.max(entry.at);
        if is_own_work(entry) {
            *spent.entry(format!("  {}", entry.action)).or_default() += entry.took.min(stretch);
            *spent.entry(entry.component.to_owned()).or_default() += stretch.saturating_sub(entry.took);
        } else {
            *spent.entry(entry.component.to_owned()).or_default() += stretch;
        }
    }
    spent
}
