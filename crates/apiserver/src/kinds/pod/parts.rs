//! What changes a pod through a door of its own: containers to look around with, and new sizes.

use bowline_api::{Pod, pod as pods};
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use super::{qos, spec};
use crate::field::Invalid;
use crate::kinds::check::go;
use crate::kinds::check::same::same;
use crate::registry::Part;

const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const ONLY_RESIZABLE: &str = "only cpu and memory resources are mutable";

/// Takes over what the part is about and nothing else.
pub fn prepare(new: &mut Pod, old: &Pod, part: Part) {
    let wanted = new.spec.take().unwrap_or_default();
    let mut spec = old.spec.clone().unwrap_or_default();
    if part == Part::Resize {
        if !resizes(&mut spec, &wanted) {
            // Validation says what is wrong.
            new.spec = Some(wanted);
            return;
        }
    } else {
        spec.ephemeral_containers = wanted.ephemeral_containers;
    }
    let version = new.metadata.resource_version.take();
    *new = Pod { spec: Some(spec), ..old.clone() };
    new.metadata.resource_version = version;
}

/// Puts wanted sizes into a spec; false if the containers are not the same.
fn resizes(spec: &mut PodSpec, wanted: &PodSpec) -> bool {
    let count = |containers: &Option<Vec<Container>>| containers.as_ref().map_or(0, Vec::len);
    if spec.containers.len() != wanted.containers.len()
        || count(&spec.init_containers) != count(&wanted.init_containers)
    {
        return false;
    }
    let both = spec.containers.iter_mut().zip(&wanted.containers);
    let init = spec.init_containers.iter_mut().flatten().zip(wanted.init_containers.iter().flatten());
    for (own, other) in both.chain(init) {
        if own.name != other.name {
            return false;
        }
        own.resources.clone_from(&other.resources);
        own.resize_policy.clone_from(&other.resize_policy);
    }
    spec.resources.clone_from(&wanted.resources);
    true
}

pub fn errors(name: &str, new: &Pod, old: &Pod, part: Part) -> Vec<Invalid> {
    let (after, before) = (new.spec.clone().unwrap_or_default(), old.spec.clone().unwrap_or_default());
    let mut errors = spec::errors("spec", spec::Owner::Pod(name), &after);
    errors.extend(match part {
        Part::Resize => resize_errors(&after, old, &before),
        _ => ephemeral_errors(&after, &before),
    });
    errors
}

/// Containers to look around with come and stay as they are.
fn ephemeral_errors(after: &PodSpec, before: &PodSpec) -> Vec<Invalid> {
    let at = "spec.ephemeralContainers";
    let mut errors = Vec::new();
    for old in before.ephemeral_containers.iter().flatten() {
        let text = match after.ephemeral_containers.iter().flatten().find(|new| new.name == old.name) {
            None => format!("existing ephemeral containers {:?} may not be removed\n", old.name),
            Some(new) if !same(new, old) => {
                let changes = go::difference("core.v1.EphemeralContainer", old, new);
                format!("existing ephemeral containers {:?} may not be changed\n{changes}", old.name)
            }
            Some(_) => continue,
        };
        errors.push(Invalid::forbidden(at, text));
    }
    errors
}

fn resize_errors(after: &PodSpec, old: &Pod, before: &PodSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let class =
        old.status.as_ref().and_then(|status| status.qos_class.as_deref()).unwrap_or(qos::class(before));
    if class != qos::class(after) {
        let text = "Pod QOS Class may not change as a result of resizing";
        errors.push(Invalid::invalid("spec", class, text));
    }
    if !node_resizes(old) {
        errors.push(Invalid::forbidden("spec", "Pod running on node without support for resize"));
    }
    let mut spec = before.clone();
    if !resizes(&mut spec, after) {
        errors.extend(container_errors(after, before));
        return errors;
    }
    let lists = [
        ("containers", after.containers.as_slice(), before.containers.as_slice()),
        (
            "initContainers",
            after.init_containers.as_deref().unwrap_or_default(),
            before.init_containers.as_deref().unwrap_or_default(),
        ),
    ];
    for (list, after, before) in lists {
        for (index, (new, old)) in after.iter().zip(before).enumerate() {
            let at = format!("spec.{list}[{index}]");
            errors.extend(removed_errors(&at, new, old));
            if !same(&without_sizes(new), &without_sizes(old)) {
                errors.push(match list {
                    "containers" => Invalid::forbidden("spec", ONLY_RESIZABLE),
                    _ => Invalid::forbidden(
                        at,
                        "only cpu and memory resources for init or sidecar containers are mutable",
                    ),
                });
            }
        }
    }
    errors
}

/// A kubelet that resizes says what running containers have.
fn node_resizes(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut running = statuses.filter(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()));
    pods::node_name(pod).is_empty() || running.next().is_none_or(|one| one.resources.is_some())
}

fn container_errors(after: &PodSpec, before: &PodSpec) -> Vec<Invalid> {
    let count = |containers: &Option<Vec<Container>>| containers.as_ref().map_or(0, Vec::len);
    let lists = [
        ("containers", after.containers.len() != before.containers.len()),
        ("initContainers", count(&after.init_containers) != count(&before.init_containers)),
    ];
    let wrong: Vec<Invalid> = lists
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(list, _)| {
            let what = if list == "containers" { "containers" } else { "initContainers" };
            Invalid::forbidden(
                format!("spec.{list}"),
                format!("{what} may not be added or removed on resize"),
            )
        })
        .collect();
    match wrong.is_empty() {
        false => wrong,
        true => vec![Invalid::forbidden(
            "spec.containers",
            "containers may not be renamed or reordered on resize",
        )],
    }
}

/// What was asked for can become more or less, and not nothing.
fn removed_errors(at: &str, new: &Container, old: &Container) -> Vec<Invalid> {
    let (new, old) = (new.resources.clone().unwrap_or_default(), old.resources.clone().unwrap_or_default());
    let lists = [("requests", new.requests, old.requests), ("limits", new.limits, old.limits)];
    let gone = lists.into_iter().filter(|(_, after, before)| {
        let kept = |name: &String| after.as_ref().is_some_and(|after| after.contains_key(name));
        !before.iter().flatten().all(|(name, _)| kept(name))
    });
    gone.map(|(list, ..)| {
        Invalid::forbidden(format!("{at}.resources.{list}"), format!("resource {list} cannot be removed"))
    })
    .collect()
}

/// A container but for what may be resized.
fn without_sizes(one: &Container) -> Container {
    let mut one = one.clone();
    let ResourceRequirements { limits, requests, .. } = one.resources.get_or_insert_default();
    for list in [limits, requests] {
        let mut amounts = list.take().unwrap_or_default();
        amounts.retain(|name, _| !RESIZABLE.contains(&name.as_str()));
        *list = Some(amounts).filter(|amounts| !amounts.is_empty());
    }
    one
}
