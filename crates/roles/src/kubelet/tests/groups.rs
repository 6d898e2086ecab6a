//! Which volumes are given to a pod's group.

use bowline_api::{CSIDriver, PersistentVolume, Pod, build};
use bowline_host::disk::GroupChange;
use serde_json::{Value, json};

use crate::kubelet::fs_group::csi_grant;

const GID: u32 = 2000;

fn grouped(context: Value) -> Pod {
    let mut pod = build::pod("p").shell("sleep 9").build();
    pod.spec.as_mut().unwrap().security_context = Some(serde_json::from_value(context).unwrap());
    pod
}

#[test]
fn which_volumes_the_kubelet_gives_to_the_group() {
    let policies = |policy: Value| -> CSIDriver {
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": {"fsGroupPolicy": policy}})).unwrap()
    };
    let pv = |fs_type: &str, mode: &str| -> PersistentVolume {
        let csi = json!({"driver": "d", "volumeHandle": "h", "fsType": fs_type});
        serde_json::from_value(
            json!({"metadata": {"name": "pv"}, "spec": {"accessModes": [mode], "csi": csi}}),
        )
        .unwrap()
    };
    let pod = grouped(json!({"fsGroup": GID}));
    let (default, none, file) = (policies(Value::Null), policies("None".into()), policies("File".into()));
    let table = [
        ("no CSIDriver", None, pv("ext4", "ReadWriteOnce"), false, false, true),
        ("default", Some(&default), pv("ext4", "ReadWriteOnce"), false, false, true),
        ("one pod", Some(&default), pv("ext4", "ReadWriteOncePod"), false, false, true),
        ("no type", Some(&default), pv("", "ReadWriteOnce"), false, false, false),
        ("shared", Some(&default), pv("ext4", "ReadWriteMany"), false, false, false),
        ("policy None", Some(&none), pv("ext4", "ReadWriteOnce"), false, false, false),
        ("policy File, shared", Some(&file), pv("", "ReadWriteMany"), false, false, true),
        ("read only", Some(&file), pv("ext4", "ReadWriteOnce"), true, false, false),
        ("the driver does it", Some(&file), pv("ext4", "ReadWriteOnce"), false, true, false),
    ];
    for (name, driver, pv, read_only, driver_does_it, wanted) in table {
        assert_eq!(csi_grant(&pod, &pv, driver, read_only, driver_does_it).is_some(), wanted, "{name}");
    }
    let once = pv("ext4", "ReadWriteOnce");
    let change = |context| csi_grant(&grouped(context), &once, None, false, false).map(|grant| grant.change);
    assert_eq!(change(json!({"fsGroup": GID})), Some(GroupChange::Always));
    let policy = json!({"fsGroup": GID, "fsGroupChangePolicy": "OnRootMismatch"});
    assert_eq!(change(policy), Some(GroupChange::OnRootMismatch));
    assert_eq!(change(json!({"runAsUser": 1})), None);
}
