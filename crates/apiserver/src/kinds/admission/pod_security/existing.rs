//! The pods that are there when a namespace becomes stricter: they stay, and whoever changed the labels hears of them.

use std::collections::{BTreeMap, HashSet};

use bowline_api::Pod;
use bytes::Bytes;
use serde::Deserialize;

use super::evaluate::evaluate;
use super::policy::LevelVersion;
use super::subject::Subject;
use super::violation::reasons;

/// Pods that are looked at. Upstream's figure.
const PODS_MAX: usize = 3000;
/// Upstream stops after a second instead; a figure that no clock decides makes the answer the same everywhere.
const BYTES_MAX: usize = 64 << 20;

/// As much of a pod as tells who made it.
#[derive(Deserialize)]
struct Owned {
    metadata: Owners,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owners {
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    uid: String,
    #[serde(default)]
    controller: bool,
}

/// Pods with the same violations.
struct Group {
    first: String,
    count: usize,
}

/// What to say of pods, given as JSON, that violate a policy.
pub fn warnings(namespace: &str, policy: LevelVersion, pods: &[Bytes]) -> Vec<String> {
    let (mut groups, mut checked, mut bytes) = (BTreeMap::<String, Group>::new(), 0, 0);
    for text in prioritized(pods).into_iter().take(PODS_MAX) {
        if bytes > BYTES_MAX {
            break;
        }
        (checked, bytes) = (checked + 1, bytes + text.len());
        let Ok(pod) = serde_json::from_slice::<Pod>(text) else { continue };
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let spec = pod.spec.unwrap_or_default();
        let violations = evaluate(policy, &Subject::new(&annotations, &spec));
        if violations.is_empty() {
            continue;
        }
        let name = pod.metadata.name.unwrap_or_default();
        let group =
            groups.entry(reasons(&violations)).or_insert_with(|| Group { first: name.clone(), count: 0 });
        group.first = name.min(std::mem::take(&mut group.first));
        group.count += 1;
    }
    let partial = (checked < pods.len()).then(|| {
        let all = pods.len();
        format!(
            "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
        )
    });
    let heading = (!groups.is_empty()).then(|| {
        format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{policy}\""
        )
    });
    let mut lines: Vec<String> = groups.iter().map(|(reasons, group)| line(reasons, group)).collect();
    lines.sort();
    partial.into_iter().chain(heading).chain(lines).collect()
}

fn line(reasons: &str, group: &Group) -> String {
    let first = &group.first;
    match group.count {
        1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        count => format!("{first} (and {} other pods): {reasons}", count - 1),
    }
}

/// Of the pods that one controller made, most of which are alike, all but the first come last.
fn prioritized(pods: &[Bytes]) -> Vec<&Bytes> {
    let mut controllers = HashSet::new();
    let (mut first, mut repeated) = (Vec::new(), Vec::new());
    for pod in pods {
        let owners = serde_json::from_slice::<Owned>(pod).map(|pod| pod.metadata.owner_references);
        let controller = owners.unwrap_or_default().into_iter().find(|owner| owner.controller);
        let is_first = controller.is_none_or(|controller| controllers.insert(controller.uid));
        if is_first { first.push(pod) } else { repeated.push(pod) }
    }
    first.append(&mut repeated);
    first
}
