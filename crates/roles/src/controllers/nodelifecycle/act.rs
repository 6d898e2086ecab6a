//! One write: the taints, unless the node changed since.

use bowline_machinery::EffectError;
use bowline_machinery::effect::Part;
use serde_json::json;

use super::model::{Action, Observed};
use super::role::Lifecycle;

impl Lifecycle {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        let Action::SetTaints(taints) = action;
        // The list is written whole, so it must be the one that was read.
        let version = &seen.node.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        self.effects.patch(Part::Main, &*seen.node, patch).await.map(drop)
    }
}
