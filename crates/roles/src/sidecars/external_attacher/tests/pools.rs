//! Which workers a key may use.

use bowline_api::VolumeAttachment;
use bowline_machinery::{Pool, Role};
use serde_json::json;

use super::super::model::Key;
use super::super::role::Attacher;
use crate::sidecars::testing::{context, sidecar};

fn attachment(name: &str, deleting: bool) -> VolumeAttachment {
    let deleted = deleting.then_some("2026-01-01T00:00:00Z");
    let metadata = json!({"name": name, "uid": name, "resourceVersion": "5", "deletionTimestamp": deleted});
    let spec = json!({"attacher": "d.example", "nodeName": "n", "source": {"persistentVolumeName": "pv"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// B19: a driver that cannot detach must not keep volumes from being attached, and the other way round.
#[tokio::test]
async fn attaching_and_detaching_do_not_share_workers() {
    let context = context();
    let sidecar = sidecar(&context.ports.host);
    let role = Attacher::start(context, (sidecar, crate::flags(&[]).unwrap())).await.unwrap();
    role.attachments.note(attachment("wanted", false));
    role.attachments.note(attachment("unwanted", true));
    let attachment = |name: &str| Key::Attachment(name.to_owned());
    let table = [
        ("an attachment", attachment("wanted"), "attach"),
        ("one that is being deleted", attachment("unwanted"), "detach"),
        ("one that is gone: nothing is left to call the driver for", attachment("gone"), "attach"),
        ("a volume, whose finalizer needs no driver", Key::Volume("pv".into()), "volume"),
    ];
    for (what, key, pool) in table {
        assert_eq!(role.pool(&key), Pool::new(pool, Attacher::WORKERS), "{what}");
    }
}
