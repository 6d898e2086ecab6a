//! Volumes of a container at their paths inside it. Pure.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use bowline_api::Container;
use k8s_openapi::api::core::v1::{VolumeDevice, VolumeMount};

use super::environment::{Environment, expand_strictly};
use super::{Problem, absolute, config};
use crate::kubelet::pods::model::{Binding, VolumeAt};

pub fn mounts(
    container: &Container,
    volumes: &BTreeMap<String, VolumeAt>,
    env: &Environment,
) -> Result<Vec<Binding>, Problem> {
    let mut bindings = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let Some(at) = volumes.get(&mount.name) else {
            return Err(config(format!("volume {:?} is not mounted", mount.name)));
        };
        let read_only = at.read_only || mount.read_only.unwrap_or(false);
        let mut binding = Binding::new(&at.path, absolute(&mount.mount_path)).read_only(read_only);
        binding.sub_path = sub_path(mount, env)?;
        bindings.push(binding);
    }
    // Parents before what is mounted inside them.
    bindings.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(bindings)
}

pub fn devices(container: &Container, volumes: &BTreeMap<String, VolumeAt>) -> Result<Vec<Binding>, Problem> {
    let binding = |device: &VolumeDevice| match volumes.get(&device.name) {
        Some(at) => Ok(Binding::new(&at.path, absolute(&device.device_path)).read_only(at.read_only)),
        None => Err(config(format!("volume {:?} is not mapped", device.name))),
    };
    container.volume_devices.iter().flatten().map(binding).collect()
}

/// Checked again after variables are in it: the API server saw them by name only.
fn sub_path(mount: &VolumeMount, env: &Environment) -> Result<Option<PathBuf>, Problem> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    // A message shows the expression, because a variable may come from a secret.
    let (text, shown) = match (given(&mount.sub_path), given(&mount.sub_path_expr)) {
        (Some(text), _) => (text.clone(), text),
        (None, Some(expression)) => {
            let text =
                expand_strictly(&expression, env).map_err(|why| config(format!("subPathExpr: {why}")))?;
            (text, expression)
        }
        (None, None) => return Ok(None),
    };
    let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(&text).components().all(inside) {
        return Err(config(format!(
            "subPath {shown:?} of volume {:?} must be relative and must not contain `..`",
            mount.name
        )));
    }
    let parts = Path::new(&text).components().filter(|part| matches!(part, Component::Normal(_)));
    Ok(Some(parts.collect::<PathBuf>()).filter(|path| !path.as_os_str().is_empty()))
}
