//! Every RPC and the fields of its request. A new RPC that is missing here fails `every_rpc_is_listed`.

use super::message::Field::{self, *};

pub struct Rpc {
    pub path: &'static str,
    pub fields: &'static [(u32, Field)],
    pub streams: bool,
}

const fn rpc(path: &'static str, fields: &'static [(u32, Field)]) -> Rpc {
    Rpc { path, fields, streams: false }
}

const fn stream(path: &'static str, fields: &'static [(u32, Field)]) -> Rpc {
    Rpc { path, fields, streams: true }
}

pub const ALL: [Rpc; 38] = [
    rpc("/csi.v1.Identity/GetPluginInfo", &[]),
    rpc("/csi.v1.Identity/GetPluginCapabilities", &[]),
    rpc("/csi.v1.Identity/Probe", &[]),
    rpc(
        "/csi.v1.Controller/CreateVolume",
        &[
            (1, Id),
            (2, Range),
            (3, Capabilities),
            (4, Map),
            (5, Map),
            (6, Source),
            (7, Requirement),
            (8, Mutable),
        ],
    ),
    rpc("/csi.v1.Controller/DeleteVolume", &[(1, Id), (2, Map)]),
    rpc(
        "/csi.v1.Controller/ControllerPublishVolume",
        &[(1, Id), (2, Node), (3, Capability), (4, Flag), (5, Map), (6, Map)],
    ),
    rpc("/csi.v1.Controller/ControllerUnpublishVolume", &[(1, Id), (2, Node), (3, Map)]),
    rpc(
        "/csi.v1.Controller/ValidateVolumeCapabilities",
        &[(1, Id), (2, Map), (3, Capabilities), (4, Map), (5, Map), (6, Mutable)],
    ),
    rpc("/csi.v1.Controller/ListVolumes", &[(1, Number), (2, Token)]),
    rpc("/csi.v1.Controller/ControllerListVolumeHealth", &[(1, Number), (2, Token), (3, Map)]),
    rpc("/csi.v1.Controller/ControllerGetVolumeHealth", &[(1, Id), (2, Map)]),
    rpc("/csi.v1.Controller/GetCapacity", &[(1, Capabilities), (2, Map), (3, Topology)]),
    rpc("/csi.v1.Controller/ControllerGetCapabilities", &[]),
    rpc(
        "/csi.v1.Controller/CreateSnapshot",
        &[(1, Id), (2, SnapshotId), (3, Map), (4, Map), (5, Requirement)],
    ),
    rpc("/csi.v1.Controller/DeleteSnapshot", &[(1, SnapshotId), (2, Map)]),
    rpc("/csi.v1.Controller/ListSnapshots", &[(1, Number), (2, Token), (3, Id), (4, SnapshotId), (5, Map)]),
    rpc("/csi.v1.Controller/GetSnapshot", &[(1, SnapshotId), (2, Map)]),
    rpc("/csi.v1.Controller/ControllerExpandVolume", &[(1, Id), (2, Range), (3, Map), (4, Capability)]),
    rpc("/csi.v1.Controller/ControllerGetVolume", &[(1, Id)]),
    rpc("/csi.v1.Controller/ControllerModifyVolume", &[(1, Id), (2, Map), (3, Mutable)]),
    rpc("/csi.v1.GroupController/GroupControllerGetCapabilities", &[]),
    rpc("/csi.v1.GroupController/CreateVolumeGroupSnapshot", &[(1, GroupId), (2, Ids), (3, Map), (4, Map)]),
    rpc("/csi.v1.GroupController/DeleteVolumeGroupSnapshot", &[(1, GroupId), (2, SnapshotIds), (3, Map)]),
    rpc("/csi.v1.GroupController/GetVolumeGroupSnapshot", &[(1, GroupId), (2, SnapshotIds), (3, Map)]),
    stream(
        "/csi.v1.SnapshotMetadata/GetMetadataAllocated",
        &[(1, SnapshotId), (2, Size), (3, Number), (4, Map)],
    ),
    stream(
        "/csi.v1.SnapshotMetadata/GetMetadataDelta",
        &[(1, SnapshotId), (2, SnapshotId), (3, Size), (4, Number), (5, Map)],
    ),
    rpc(
        "/csi.v1.Node/NodeStageVolume",
        &[(1, Id), (2, Map), (3, Staging), (4, Capability), (5, Map), (6, Context)],
    ),
    rpc("/csi.v1.Node/NodeUnstageVolume", &[(1, Id), (2, Staging)]),
    rpc(
        "/csi.v1.Node/NodePublishVolume",
        &[(1, Id), (2, Map), (3, Staging), (4, Target), (5, Capability), (6, Flag), (7, Map), (8, Context)],
    ),
    rpc("/csi.v1.Node/NodeUnpublishVolume", &[(1, Id), (2, Target)]),
    rpc("/csi.v1.Node/NodeGetVolumeStats", &[(1, Id), (2, Target), (3, Staging)]),
    rpc("/csi.v1.Node/NodeGetVolumeHealth", &[(1, Id), (2, Target), (3, Staging)]),
    rpc("/csi.v1.Node/NodeGetStorageHealth", &[(1, Map)]),
    rpc(
        "/csi.v1.Node/NodeExpandVolume",
        &[(1, Id), (2, Target), (3, Range), (4, Staging), (5, Capability), (6, Map)],
    ),
    rpc("/csi.v1.Node/NodeGetCapabilities", &[]),
    rpc("/csi.v1.Node/NodeGetInfo", &[]),
    // Twice, because a journey needs them more often than the rest.
    rpc("/csi.v1.Controller/CreateVolume", &[(1, Id), (2, Range), (3, Capabilities)]),
    rpc("/csi.v1.Controller/ControllerPublishVolume", &[(1, Id), (2, Node), (3, Capability)]),
];

#[test]
fn every_rpc_is_listed() {
    let proto = include_str!("../../../../../proto/proto/csi.proto");
    let mut service = "";
    let mut missing = Vec::new();
    for line in proto.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("service ") {
            service = rest.trim_end_matches([' ', '{']);
        }
        if let Some(rest) = line.strip_prefix("rpc ") {
            let name = rest.split([' ', '(']).next().unwrap_or_default();
            let path = format!("/csi.v1.{service}/{name}");
            if !ALL.iter().any(|rpc| rpc.path == path) {
                missing.push(path);
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}
