//! Volumes that pods describe themselves, and publications that are repeated.

use bowline_api::{CSIDriver, Meta, name, volume};

use super::super::desired::{inline, inline_source};
use super::*;

fn csi_driver(spec: serde_json::Value) -> Option<Arc<CSIDriver>> {
    Some(Arc::new(serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()))
}

/// A pod wants a volume that it describes itself.
fn described(driver: Option<Arc<CSIDriver>>) -> Observed {
    let seen = seen().need("a", Want::Mounted, Absent).attach(AttachSeen::NotRequired);
    Observed { inline: true, csi_driver: driver, ..seen }
}

#[test]
fn edge_9_3_25_inline_volumes_are_published_without_a_stage() {
    let able = csi_driver(json!({"volumeLifecycleModes": ["Persistent", "Ephemeral"]}));
    assert_eq!(decide(&described(able)), Step::Do(Action::Publish(target("a"))));
}

#[test]
fn edge_9_3_25_inline_volumes_need_a_csi_driver_with_their_mode() {
    let table = [
        (None, "(no CSIDriver object)"),
        (csi_driver(json!({})), "(only supports [\"Persistent\"])"),
        (csi_driver(json!({"volumeLifecycleModes": ["Persistent"]})), "(only supports [\"Persistent\"])"),
    ];
    for (driver, why) in table {
        let text = format!(
            "MountVolume.SetUp failed for volume \"pv\" : volume mode \"Ephemeral\" not supported by driver d {why}"
        );
        assert_eq!(decide(&described(driver)), Step::Do(Action::Report(target("a"), text)));
    }
    let only = csi_driver(json!({"volumeLifecycleModes": ["Ephemeral"]}));
    let claimed = Observed { inline: false, ..described(only) };
    assert!(
        matches!(decide(&claimed), Step::Do(Action::Report(_, text)) if text.contains("\"Persistent\" not"))
    );
}

#[test]
fn a_publication_is_repeated_when_it_is_due_and_only_while_it_is_wanted() {
    let at_time = |want, due: u64| {
        let mut seen = seen().need("a", want, Present).staged(Present);
        seen.needs.get_mut(&target("a")).unwrap().republish_at = Some(at(due));
        seen
    };
    assert_eq!(decide(&at_time(Want::Mounted, 101)), Step::Done);
    assert_eq!(decide(&at_time(Want::Mounted, 100)), Step::Do(Action::Republish(target("a"))));
    assert_eq!(decide(&at_time(Want::Gone, 100)), Step::Do(Action::Unpublish(target("a"))));
    assert_eq!(decide(&at_time(Want::AsItIs, 100)), Step::Wait(Why::InUse));
    let away = at_time(Want::Mounted, 100).driver(DriverSeen::Missing { since: at(0) });
    assert_eq!(decide(&away), Step::Done, "the driver is asked when it is back");
}

#[test]
fn a_pods_description_leads_to_a_volume_of_its_own() {
    let mut pod = bowline_api::build::pod("p").mount("claim", "/c").build();
    pod.metadata.uid = Some("uid".into());
    let spec = pod.spec.as_mut().unwrap();
    let mut volumes = spec.volumes.take().unwrap_or_default();
    for volume in ["used", "unused", "device"] {
        let csi = json!({
            "driver": "d", "readOnly": true, "volumeAttributes": {"k": "v"}, "nodePublishSecretRef": {"name": "s"},
        });
        volumes.push(serde_json::from_value(json!({"name": volume, "csi": csi})).unwrap());
    }
    spec.volumes = Some(volumes);
    let mounts = spec.containers[0].volume_mounts.get_or_insert_default();
    mounts.push(serde_json::from_value(json!({"name": "used", "mountPath": "/u"})).unwrap());
    let devices = spec.containers[0].volume_devices.get_or_insert_default();
    devices.push(serde_json::from_value(json!({"name": "device", "devicePath": "/d"})).unwrap());
    let found = inline(&pod);
    let [(used, Ok(resolved)), (device, Err(why))] = &found[..] else { panic!("{found:?}") };
    assert_eq!((used.as_str(), resolved.volume.as_str()), ("used", "kubernetes.io/csi/uid-used"));
    assert_eq!(resolved.handle, name::inline_handle("uid", "used"));
    assert!(resolved.read_only && resolved.handle.starts_with("csi-"));
    assert_eq!((device.as_str(), why.contains("volumeDevices")), ("device", true));
    let source = inline_source(&pod, "used").unwrap();
    let csi = volume::csi(&source).unwrap();
    let secret = csi.node_publish_secret_ref.as_ref().unwrap();
    assert_eq!((source.name(), csi.volume_handle.as_str()), ("used", resolved.handle.as_str()));
    assert_eq!((secret.namespace.as_deref(), secret.name.as_deref()), (Some(pod.namespace()), Some("s")));
    assert_eq!(volume::volume_access_modes(&source), ["ReadWriteOnce"]);
}
