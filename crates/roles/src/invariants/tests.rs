//! Each promise holds on a good world and is seen broken on a bad one.

use bowline_api::build;
use serde_json::json;

use super::*;

fn claim(name: &str, uid: &str, bound_to: &str) -> Arc<PersistentVolumeClaim> {
    let mut claim = build::claim(name).build();
    claim.metadata.uid = Some(uid.into());
    claim.set_annotation(keys::BIND_COMPLETED, keys::YES);
    claim.spec.get_or_insert_default().volume_name = Some(bound_to.into());
    Arc::new(claim)
}

fn volume_of(name: &str, claim_uid: &str, mode: &str, size: &str) -> Arc<PersistentVolume> {
    let object = json!({
        "metadata": {"name": name, "annotations": {(keys::PROVISIONED_BY): "d"}},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "volumeMode": mode,
                 "claimRef": {"uid": claim_uid}},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn attachment(name: &str, volume: &str, node: &str, finalizer: bool) -> Arc<VolumeAttachment> {
    let finalizers = if finalizer { vec![keys::attacher_finalizer("d")] } else { vec![] };
    let object = json!({
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": volume}},
        "status": {"attached": true},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn good() -> Snapshot {
    Snapshot {
        claims: vec![claim("a", "1", "v")],
        volumes: vec![volume_of("v", "1", "Filesystem", "1Gi")],
        attachments: vec![attachment("x", "v", "n1", true)],
    }
}

#[test]
fn a_good_world_breaks_nothing() {
    assert_eq!(violations(&good()), Vec::<String>::new());
}

#[test]
fn each_broken_promise_is_named() {
    let two_claims = Snapshot { claims: vec![claim("a", "1", "v"), claim("b", "1", "v")], ..good() };
    let stranger = Snapshot { claims: vec![claim("a", "2", "v")], ..good() };
    let mode = Snapshot { volumes: vec![volume_of("v", "1", "Block", "1Gi")], ..good() };
    let small = Snapshot { volumes: vec![volume_of("v", "1", "Filesystem", "1Mi")], ..good() };
    let mut twice = good();
    twice.volumes.push(volume_of("w", "1", "Filesystem", "1Gi"));
    let bare = Snapshot { attachments: vec![attachment("x", "v", "n1", false)], ..good() };
    let mut two_nodes = good();
    two_nodes.attachments.push(attachment("y", "v", "n2", true));
    let table = [
        (two_claims, "BIND-1"),
        (stranger, "BIND-1"),
        (mode, "BIND-2"),
        (small, "BIND-2"),
        (twice, "PROV-1"),
        (bare, "ATT-1"),
        (two_nodes, "ATT-2"),
    ];
    for (world, promise) in table {
        let broken = violations(&world);
        assert!(broken.len() == 1 && broken[0].starts_with(promise), "{promise}: {broken:?}");
    }
}
