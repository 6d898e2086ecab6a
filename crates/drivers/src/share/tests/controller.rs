//! Listing, validation, capacity and identity.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{MIB, NODE, World, block, capability, code, create};
use crate::share::NAME;

#[tokio::test]
async fn pages_neither_skip_nor_repeat() {
    let world = World::new().await;
    for name in ["a", "b", "c", "d"] {
        world.create(name).await.unwrap();
    }
    world.publish_inline("bi", "pod").await.unwrap();
    let list = async |max_entries: i32, token: &str| {
        let request = csi::ListVolumesRequest { max_entries, starting_token: token.into() };
        world.controller().list_volumes(request).await.map(|answer| answer.into_inner())
    };
    let ids = |page: &csi::ListVolumesResponse| {
        page.entries.iter().map(|e| e.volume.as_ref().unwrap().volume_id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&list(0, "").await.unwrap()), ["a", "b", "c", "d"], "inline volumes are not listed");
    let first = list(2, "").await.unwrap();
    assert_eq!(ids(&first), ["a", "b"]);
    world.delete("b").await.unwrap();
    let second = list(2, &first.next_token).await.unwrap();
    assert_eq!((ids(&second), second.next_token.as_str()), (vec!["c".into(), "d".into()], ""));
    assert_eq!(code(&list(0, "invalid-token").await), Code::Aborted);
    assert_eq!(code(&list(-1, "").await), Code::InvalidArgument);
}

#[tokio::test]
async fn one_volume() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.publish_inline("i", "pod").await.unwrap();
    let get = async |id: &str| {
        let request = csi::ControllerGetVolumeRequest { volume_id: id.into() };
        world.controller().controller_get_volume(request).await.map(|answer| answer.into_inner())
    };
    assert_eq!(get("v").await.unwrap().volume.unwrap().capacity_bytes, 64 * MIB);
    for (id, expected) in [("", Code::InvalidArgument), ("x", Code::NotFound), ("i", Code::NotFound)] {
        assert_eq!(code(&get(id).await), expected, "{id}");
    }
}

#[tokio::test]
async fn validation_confirms_or_says_why() {
    type Request = csi::ValidateVolumeCapabilitiesRequest;
    let table: [(&str, fn(&mut Request), Result<bool, Code>); 10] = [
        ("as created", |_| {}, Ok(true)),
        ("another mode", |r| r.volume_capabilities = vec![capability(Mode::SingleNodeWriter)], Ok(true)),
        ("block", |r| r.volume_capabilities.push(block()), Ok(false)),
        ("the parameter", |r| _ = r.parameters.insert("directoryMode".into(), "0775".into()), Ok(true)),
        ("another one", |r| _ = r.parameters.insert("directoryMode".into(), "0700".into()), Ok(false)),
        ("an unknown one", |r| _ = r.parameters.insert("a".into(), "b".into()), Ok(false)),
        ("mutable", |r| _ = r.mutable_parameters.insert("a".into(), "b".into()), Ok(false)),
        ("no volume", |r| r.volume_id.clear(), Err(Code::InvalidArgument)),
        ("no capability", |r| r.volume_capabilities.clear(), Err(Code::InvalidArgument)),
        ("unknown volume", |r| r.volume_id = "x".into(), Err(Code::NotFound)),
    ];
    let world = World::new().await;
    let mut made = create("v");
    made.parameters.insert("directoryMode".into(), "0775".into());
    world.controller().create_volume(made).await.unwrap();
    for (name, change, expected) in table {
        let mut request = Request {
            volume_id: "v".into(),
            volume_capabilities: vec![capability(Mode::MultiNodeMultiWriter)],
            ..Default::default()
        };
        change(&mut request);
        let echo = request.clone();
        let answer = world.controller().validate_volume_capabilities(request).await;
        let answer = answer.map(|answer| answer.into_inner());
        assert_eq!(answer.as_ref().map(|a| a.confirmed.is_some()).map_err(|s| s.code()), expected, "{name}");
        if let Ok(answer) = answer {
            assert_eq!(answer.message.is_empty(), answer.confirmed.is_some(), "{name}");
            let confirmed = answer.confirmed.map(|c| (c.volume_capabilities, c.parameters));
            assert!(confirmed.is_none_or(|c| c == (echo.volume_capabilities, echo.parameters)), "{name}");
        }
    }
}

#[tokio::test]
async fn capacity_is_that_of_the_pool() {
    let world = World::new().await;
    let ask = async |request: csi::GetCapacityRequest| {
        world.controller().get_capacity(request).await.map(|answer| answer.into_inner())
    };
    let space = world.host.disk.space("/var/lib".as_ref()).await.unwrap();
    let all = ask(Default::default()).await.unwrap();
    assert_eq!(u64::try_from(all.available_capacity), Ok(space.available));
    assert_eq!(all.maximum_volume_size.map(|most| most as u64), Some(space.total));
    let blocks = csi::GetCapacityRequest { volume_capabilities: vec![block()], ..Default::default() };
    assert_eq!(ask(blocks).await.unwrap().available_capacity, 0);
    let unknown =
        csi::GetCapacityRequest { parameters: [("a".into(), "b".into())].into(), ..Default::default() };
    assert_eq!(code(&ask(unknown).await), Code::InvalidArgument);
}

#[tokio::test]
async fn what_is_not_promised_is_not_there() {
    let world = World::new().await;
    let info = world.identity().get_plugin_info(csi::GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.name, NAME);
    let node = world.node().node_get_info(csi::NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((node.node_id.as_str(), node.accessible_topology), (NODE, None));
    world.create("v").await.unwrap();
    let codes = [
        code(
            &world
                .controller()
                .controller_publish_volume(csi::ControllerPublishVolumeRequest::default())
                .await,
        ),
        code(&world.controller().create_snapshot(csi::CreateSnapshotRequest::default()).await),
        code(&world.node().node_stage_volume(csi::NodeStageVolumeRequest::default()).await),
        code(&world.node().node_expand_volume(csi::NodeExpandVolumeRequest::default()).await),
    ];
    assert_eq!(codes, [Code::Unimplemented; 4]);
}

#[tokio::test]
async fn a_pool_that_cannot_be_written_is_not_healthy() {
    let world = World::new().await;
    world.identity().probe(csi::ProbeRequest {}).await.unwrap();
    world.machine.set_read_only(true);
    let sick = world.identity().probe(csi::ProbeRequest {}).await;
    assert_eq!(code(&sick), Code::FailedPrecondition);
}
