//! One write: the config map, new or as it should be.

use std::collections::BTreeMap;

use bowline_api::{ConfigMap, Meta, keys};
use bowline_machinery::effect::Part;
use bowline_machinery::{EffectError, Effects};

use super::world::{Action, Observed};

/// The config map that every pod mounts.
pub(super) const NAME: &str = "kube-root-ca.crt";
const FILE: &str = "ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

pub(super) async fn act(effects: &Effects, action: Action, seen: &Observed) -> Result<(), EffectError> {
    let map = written(action, seen);
    match action {
        // Somebody else's may be as good; the watch brings it.
        Action::Create => match effects.create(&map).await {
            Err(error) if !error.conflict() => Err(error),
            _ => Ok(()),
        },
        Action::Restore => effects.replace(Part::Main, &map).await.map(drop),
    }
}

pub(super) fn data(root: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(FILE.to_owned(), root.to_owned())])
}

pub(super) fn written(action: Action, seen: &Observed) -> ConfigMap {
    let mut map = match action {
        Action::Create => ConfigMap::default(),
        Action::Restore => seen.map.as_deref().cloned().unwrap_or_default(),
    };
    map.metadata.name = Some(NAME.into());
    map.metadata.namespace = Some(seen.namespace.name().into());
    map.set_annotation(keys::DESCRIPTION, DESCRIPTION);
    map.data = Some(data(&seen.root));
    map
}
