//! One write: the config map, new or as it should be.

use bowline_api::{ConfigMap, Meta, keys};
use bowline_machinery::EffectError;
use bowline_machinery::effect::Part;

use super::model::{Action, NAME, Observed, data};
use super::role::Publisher;

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

impl Publisher {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        let map = written(action, seen);
        match action {
            // One that was created meanwhile is a conflict: the runner backs off until the watch brings it.
            Action::Create => self.effects.create(&map).await.map(drop),
            Action::Restore => self.effects.replace(Part::Main, &map).await.map(drop),
        }
    }
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
