//! Upstream's histogram of storage operations. An attach lasts from the making of the VolumeAttachment until it says
//! `attached` or why not, a detach from its deletion until it is gone.

use std::time::Duration;

use bowline_api::{Meta, VolumeAttachment, volume};
use bowline_machinery::{Change, EffectError};

use super::observe::attach_error;
use super::role::Controller;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Attach,
    Detach,
}

/// How an operation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Success,
    Failure,
    /// By something else than what it was to do.
    Unmeasured,
}

/// What a change says about the operation that runs; nothing while it goes on.
fn end(running: Operation, change: &Change<VolumeAttachment>) -> Option<End> {
    let error = |attachment: &Option<_>| attachment.as_deref().and_then(attach_error);
    match (running, &change.new) {
        (Operation::Attach, Some(new)) if volume::attached(new) => Some(End::Success),
        (Operation::Attach, Some(_)) => {
            let now = error(&change.new);
            (now.is_some() && now != error(&change.old)).then_some(End::Failure)
        }
        (Operation::Attach, None) => Some(End::Unmeasured),
        (Operation::Detach, None) => Some(End::Success),
        (Operation::Detach, Some(_)) => None,
    }
}

impl Controller {
    /// The operation on this VolumeAttachment begins.
    pub(super) fn begins(&self, attachment: &str, operation: Operation) {
        self.memory.begins(attachment, operation, self.ports.host.uptime.uptime());
    }

    /// It failed before the driver could hear of it.
    pub(super) fn measure_failure<T>(&self, attachment: &str, driver: &str, done: &Result<T, EffectError>) {
        if done.as_ref().is_err_and(|error| !error.conflict())
            && let Some((operation, begun)) = self.memory.ended(attachment)
        {
            self.sample(driver, operation, begun, false);
        }
    }

    pub(super) fn measure(&self, change: &Change<VolumeAttachment>) {
        let Some(attachment) = change.latest() else { return };
        let (name, driver) = (attachment.name(), attachment.spec.attacher.as_str());
        let Some((operation, begun)) = self.memory.operation(name) else { return };
        let Some(end) = end(operation, change) else { return };
        self.memory.ended(name);
        match end {
            End::Success => self.sample(driver, operation, begun, true),
            // The attacher tries again by itself.
            End::Failure => {
                self.sample(driver, operation, begun, false);
                self.begins(name, operation);
            }
            End::Unmeasured => {}
        }
    }

    fn sample(&self, driver: &str, operation: Operation, begun: Duration, succeeded: bool) {
        let name = match operation {
            Operation::Attach => "volume_attach",
            Operation::Detach => "volume_detach",
        };
        let took = self.ports.host.uptime.uptime().saturating_sub(begun);
        self.ports.metrics.storage_operation(driver, name, succeeded, took);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn attachment(status: &Value) -> Option<Arc<VolumeAttachment>> {
        let spec = json!({"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}});
        let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        Some(Arc::new(serde_json::from_value(object).expect("a VolumeAttachment")))
    }

    #[test]
    fn when_an_operation_ends() {
        use Operation::{Attach, Detach};
        let waiting = || attachment(&json!({"attached": false}));
        let attached = || attachment(&json!({"attached": true}));
        let failed = |why: &str| attachment(&json!({"attached": false, "attachError": {"message": why}}));
        let table = [
            (Attach, None, waiting(), None),
            (Attach, waiting(), attached(), Some(End::Success)),
            (Attach, waiting(), failed("x"), Some(End::Failure)),
            (Attach, failed("x"), failed("x"), None),
            (Attach, failed("x"), failed("y"), Some(End::Failure)),
            (Attach, waiting(), None, Some(End::Unmeasured)),
            (Detach, attached(), waiting(), None),
            (Detach, attached(), None, Some(End::Success)),
        ];
        for (running, old, new, expected) in table {
            let change = Change { old, new };
            assert_eq!(end(running, &change), expected, "{running:?} {change:?}");
        }
    }
}
