//! SEC-1: formatting a message never shows a secret.

use std::collections::BTreeMap;

use crate::csi::v1::*;
use crate::etcd;

const SECRET: &str = "hunter2";

fn secrets() -> BTreeMap<String, String> {
    BTreeMap::from([("password".to_owned(), SECRET.to_owned()), (SECRET.to_owned(), String::new())])
}

/// Both print forms, checked to hold no secret.
fn print(message: &impl std::fmt::Debug) -> String {
    let text = format!("{message:?} {message:#?}");
    assert!(!text.contains(SECRET), "leaked: {text}");
    text
}

/// Fills the named secret fields and prints the message.
macro_rules! hidden {
    ($($message:path { $($field:ident),+ })*) => {$({
        let mut message = <$message>::default();
        $(message.$field = secrets();)+
        print(&message);
    })*};
}

#[test]
#[allow(clippy::field_reassign_with_default)]
fn maps_that_may_hold_secrets_are_never_printed() {
    hidden! {
        CreateVolumeRequest { parameters, secrets, mutable_parameters }
        DeleteVolumeRequest { secrets }
        ControllerPublishVolumeRequest { secrets, volume_context }
        ControllerPublishVolumeResponse { publish_context }
        ControllerUnpublishVolumeRequest { secrets }
        ValidateVolumeCapabilitiesRequest { volume_context, parameters, secrets, mutable_parameters }
        validate_volume_capabilities_response::Confirmed { volume_context, parameters, mutable_parameters }
        ControllerModifyVolumeRequest { secrets, mutable_parameters }
        ControllerExpandVolumeRequest { secrets }
        ControllerListVolumeHealthRequest { secrets }
        ControllerGetVolumeHealthRequest { secrets }
        NodeGetStorageHealthRequest { secrets }
        GetCapacityRequest { parameters }
        Volume { volume_context }
        CreateSnapshotRequest { secrets, parameters }
        DeleteSnapshotRequest { secrets }
        ListSnapshotsRequest { secrets }
        GetSnapshotRequest { secrets }
        CreateVolumeGroupSnapshotRequest { secrets, parameters }
        DeleteVolumeGroupSnapshotRequest { secrets }
        GetVolumeGroupSnapshotRequest { secrets }
        GetMetadataAllocatedRequest { secrets }
        GetMetadataDeltaRequest { secrets }
        NodeStageVolumeRequest { publish_context, secrets, volume_context }
        NodePublishVolumeRequest { publish_context, secrets, volume_context }
        NodeExpandVolumeRequest { secrets }
    }
}

#[test]
fn a_publish_request_prints_its_ids_only() {
    let mount = volume_capability::MountVolume {
        fs_type: "ext4".to_owned(),
        mount_flags: vec![format!("password={SECRET}")],
        ..Default::default()
    };
    let capability = VolumeCapability {
        access_type: Some(volume_capability::AccessType::Mount(mount)),
        access_mode: None,
    };
    assert!(print(&capability).contains(r#"MountVolume { fs_type: "ext4", .. }"#));

    let request = NodePublishVolumeRequest {
        volume_id: "vol-1".to_owned(),
        volume_capability: Some(capability),
        secrets: secrets(),
        volume_context: secrets(),
        publish_context: secrets(),
        ..Default::default()
    };
    let text = print(&request);
    assert!(text.starts_with(r#"NodePublishVolumeRequest { volume_id: "vol-1", "#), "{text}");
    assert!(text.contains(".. }"), "{text}");
    print(&tonic::Request::new(request));
}

#[test]
fn messages_around_a_volume_hide_its_context() {
    let volume = Some(Volume { volume_context: secrets(), ..Default::default() });
    print(&CreateVolumeResponse { volume: volume.clone() });
    print(&ControllerGetVolumeResponse { volume: volume.clone(), status: None });
    let entries = vec![list_volumes_response::Entry { volume, status: None }];
    print(&ListVolumesResponse { entries, next_token: String::new() });
}

#[test]
fn what_etcd_keeps_is_not_printed() {
    let kv = etcd::KeyValue { key: "/a".into(), value: SECRET.into(), ..Default::default() };
    assert!(print(&kv).starts_with(r#"KeyValue { key: b"/a", "#));
    print(&etcd::RangeResponse { kvs: vec![kv], ..Default::default() });
    print(&etcd::PutRequest { value: SECRET.into(), ..Default::default() });
}
