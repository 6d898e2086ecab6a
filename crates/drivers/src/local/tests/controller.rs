//! Publishing to nodes, listing, validation, capacity and identity.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{
    NODE, OTHER_NODE, World, attach, block, code, config, create, mount, mount_as, mount_with,
};
use crate::local::{LocalConfig, NAME, TOPOLOGY_KEY};

type Publish = csi::ControllerPublishVolumeRequest;

#[tokio::test]
async fn answers_to_a_first_publish() {
    let table: [(&str, fn(&mut Publish), Code); 9] = [
        ("as usual", |_| {}, Code::Ok),
        ("no volume", |r| r.volume_id.clear(), Code::InvalidArgument),
        ("no node", |r| r.node_id.clear(), Code::InvalidArgument),
        ("no capability", |r| r.volume_capability = None, Code::InvalidArgument),
        (
            "many nodes after one was promised it alone",
            |r| r.volume_capability = Some(mount_as("", Mode::MultiNodeMultiWriter)),
            Code::AlreadyExists,
        ),
        ("unknown volume", |r| r.volume_id = "fake".into(), Code::NotFound),
        ("impossible volume", |r| r.volume_id = "../v".into(), Code::NotFound),
        ("unknown node", |r| r.node_id = "fake".into(), Code::NotFound),
        ("not a block volume", |r| r.volume_capability = Some(block()), Code::FailedPrecondition),
    ];
    let world = World::new().await;
    world.create("v").await.unwrap();
    for (name, change, expected) in table {
        let mut request = attach("v", NODE, mount());
        change(&mut request);
        let answer = world.controller().controller_publish_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}");
    }
}

#[tokio::test]
async fn answers_to_a_second_publish() {
    let table: [(&str, fn(&mut Publish), Code); 5] = [
        ("the same", |_| {}, Code::Ok),
        ("another node", |r| r.node_id = OTHER_NODE.into(), Code::FailedPrecondition),
        ("read-only", |r| r.readonly = true, Code::AlreadyExists),
        (
            "another mode",
            |r| r.volume_capability = Some(mount_as("ext4", Mode::SingleNodeReaderOnly)),
            Code::AlreadyExists,
        ),
        ("other flags", |r| r.volume_capability = Some(mount_with(&["noatime"])), Code::AlreadyExists),
    ];
    let world = World::new().await;
    world.create("v").await.unwrap();
    let first = world.controller().controller_publish_volume(attach("v", NODE, mount())).await.unwrap();
    for (name, change, expected) in table {
        let mut request = attach("v", NODE, mount());
        change(&mut request);
        let answer = world.controller().controller_publish_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}");
        match answer {
            Ok(again) => assert_eq!(again.get_ref().publish_context, first.get_ref().publish_context),
            Err(refused) if expected == Code::FailedPrecondition => assert!(refused.message().contains(NODE)),
            Err(_) => {}
        }
    }
}

#[tokio::test]
async fn unpublishing() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.detach("v").await.expect("never published");
    world.detach("unknown").await.expect("unknown volume");
    world.detach("a/../b").await.expect("impossible volume");
    assert_eq!(code(&world.detach("").await), Code::InvalidArgument);

    world.attach("v", mount()).await.unwrap();
    let unpublish = |node: &str| csi::ControllerUnpublishVolumeRequest {
        volume_id: "v".into(),
        node_id: node.into(),
        ..Default::default()
    };
    world.controller().controller_unpublish_volume(unpublish(OTHER_NODE)).await.expect("not there");
    let elsewhere = world.controller().controller_publish_volume(attach("v", OTHER_NODE, mount())).await;
    assert_eq!(code(&elsewhere), Code::FailedPrecondition, "still on the first node");

    world.controller().controller_unpublish_volume(unpublish("")).await.expect("wherever it is");
    world.controller().controller_publish_volume(attach("v", OTHER_NODE, mount())).await.expect("moved");
}

#[tokio::test]
async fn a_node_takes_no_more_than_its_limit() {
    let world = World::with(LocalConfig { max_volumes: 1, ..config() }).await;
    world.create("a").await.unwrap();
    world.create("b").await.unwrap();
    let (a, b) = tokio::join!(world.attach("a", mount()), world.attach("b", mount()));
    let codes = [code(&a), code(&b)];
    assert!(codes.contains(&Code::Ok) && codes.contains(&Code::ResourceExhausted), "{codes:?}");
    world.detach("a").await.unwrap();
    world.detach("b").await.unwrap();
    world.attach("b", mount()).await.expect("room again");
    world.attach("b", mount()).await.expect("repeated at the limit");
    let info = world.node().node_get_info(csi::NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.max_volumes_per_node, 1);
}

#[tokio::test]
async fn pages_neither_skip_nor_repeat() {
    let world = World::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        world.create(name).await.unwrap();
    }
    world.attach("c", mount()).await.unwrap();
    let list = async |max_entries: i32, token: &str| {
        let request = csi::ListVolumesRequest { max_entries, starting_token: token.into() };
        world.controller().list_volumes(request).await.map(|answer| answer.into_inner())
    };
    let ids = |page: &csi::ListVolumesResponse| {
        page.entries.iter().map(|e| e.volume.as_ref().unwrap().volume_id.clone()).collect::<Vec<_>>()
    };
    let all = list(0, "").await.unwrap();
    assert_eq!(ids(&all), ["a", "b", "c", "d", "e"]);
    assert_eq!(all.next_token, "");
    assert_eq!(all.entries[2].status.as_ref().unwrap().published_node_ids, [NODE]);
    assert!(all.entries[0].status.as_ref().unwrap().published_node_ids.is_empty());

    let first = list(2, "").await.unwrap();
    assert_eq!(ids(&first), ["a", "b"]);
    world.delete("b").await.unwrap();
    world.create("bb").await.unwrap();
    let second = list(2, &first.next_token).await.unwrap();
    assert_eq!(ids(&second), ["bb", "c"], "the token outlives its volume");
    let third = list(2, &second.next_token).await.unwrap();
    assert_eq!((ids(&third), third.next_token.as_str()), (vec!["d".into(), "e".into()], ""));

    assert_eq!(code(&list(0, "invalid-token").await), Code::Aborted);
    assert_eq!(code(&list(0, "after:../x").await), Code::Aborted);
    assert_eq!(code(&list(-1, "").await), Code::InvalidArgument);
}

#[tokio::test]
async fn one_volume() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    let get = async |id: &str| {
        let request = csi::ControllerGetVolumeRequest { volume_id: id.into() };
        world.controller().controller_get_volume(request).await.map(|answer| answer.into_inner())
    };
    assert_eq!(get("v").await.unwrap().status.unwrap().published_node_ids, [NODE]);
    for (id, expected) in [("", Code::InvalidArgument), ("x", Code::NotFound), ("../v", Code::NotFound)] {
        assert_eq!(code(&get(id).await), expected, "{id}");
    }
}

#[tokio::test]
async fn validation_confirms_or_says_why() {
    type Request = csi::ValidateVolumeCapabilitiesRequest;
    let table: [(&str, fn(&mut Request), Result<bool, Code>); 11] = [
        ("as created", |_| {}, Ok(true)),
        (
            "another mode",
            |r| r.volume_capabilities = vec![mount_as("", Mode::SingleNodeMultiWriter)],
            Ok(true),
        ),
        ("many nodes", |r| r.volume_capabilities = vec![mount_as("", Mode::MultiNodeMultiWriter)], Ok(true)),
        ("block", |r| r.volume_capabilities.push(block()), Ok(false)),
        ("xfs", |r| r.volume_capabilities = vec![mount_as("xfs", Mode::SingleNodeWriter)], Ok(false)),
        ("parameter", |r| _ = r.parameters.insert("a".into(), "b".into()), Ok(false)),
        ("mutable", |r| _ = r.mutable_parameters.insert("a".into(), "b".into()), Ok(false)),
        ("no volume", |r| r.volume_id.clear(), Err(Code::InvalidArgument)),
        ("no capabilities", |r| r.volume_capabilities.clear(), Err(Code::InvalidArgument)),
        ("unknown", |r| r.volume_id = "x".into(), Err(Code::NotFound)),
        ("impossible", |r| r.volume_id = "../v".into(), Err(Code::NotFound)),
    ];
    let world = World::new().await;
    world.create("v").await.unwrap();
    for (name, change, expected) in table {
        let mut request = Request {
            volume_id: "v".into(),
            volume_capabilities: vec![mount()],
            volume_context: [("k".to_owned(), "v".to_owned())].into(),
            ..Default::default()
        };
        change(&mut request);
        let answer = world.controller().validate_volume_capabilities(request.clone()).await;
        let answer = answer.map(|answer| answer.into_inner());
        let found = answer.as_ref().map(|answer| answer.confirmed.is_some());
        assert_eq!(found.map_err(|status| status.code()), expected, "{name}");
        match answer {
            Ok(answer) if expected == Ok(true) => {
                let confirmed = answer.confirmed.unwrap();
                assert_eq!(confirmed.volume_capabilities, request.volume_capabilities, "{name}");
                assert_eq!(confirmed.volume_context, request.volume_context, "{name}");
            }
            Ok(answer) => assert!(!answer.message.is_empty(), "{name}"),
            Err(_) => {}
        }
    }
}

#[tokio::test]
async fn capacity_is_what_create_accepts() {
    let world = World::new().await;
    let get = async |change: fn(&mut csi::GetCapacityRequest)| {
        let mut request = csi::GetCapacityRequest::default();
        change(&mut request);
        world.controller().get_capacity(request).await.map(|answer| answer.into_inner())
    };
    let any = get(|_| {}).await.unwrap();
    assert!(any.available_capacity > 0);
    let mut largest = create("v", mount());
    let required_bytes = any.maximum_volume_size.unwrap();
    largest.capacity_range = Some(csi::CapacityRange { required_bytes, limit_bytes: 0 });
    world.controller().create_volume(largest).await.expect("the largest fits");

    let xfs = get(|r| r.volume_capabilities = vec![mount_as("xfs", Mode::SingleNodeWriter)]).await.unwrap();
    assert_eq!(xfs.minimum_volume_size, Some(300 << 20));
    let none = get(|r| r.volume_capabilities = vec![mount_as("zfs", Mode::SingleNodeWriter)]).await.unwrap();
    assert_eq!(none.available_capacity, 0);
    let elsewhere = get(|r| {
        r.accessible_topology =
            Some(csi::Topology { segments: [(TOPOLOGY_KEY.to_owned(), "x".to_owned())].into() });
    });
    assert_eq!(elsewhere.await.unwrap().available_capacity, 0);
    let unknown = get(|r| _ = r.parameters.insert("a".into(), "b".into())).await;
    assert_eq!(code(&unknown), Code::InvalidArgument);
}

#[tokio::test]
async fn the_driver_says_what_it_is() {
    let world = World::new().await;
    let info = world.identity().get_plugin_info(csi::GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.name.as_str(), info.vendor_version.as_str()), (NAME, env!("CARGO_PKG_VERSION")));
    let all = world.identity().get_plugin_capabilities(csi::GetPluginCapabilitiesRequest {}).await.unwrap();
    assert_eq!(all.into_inner().capabilities.len(), 5);
    let probe = world.identity().probe(csi::ProbeRequest {}).await.unwrap().into_inner();
    assert_eq!(probe.ready, Some(true));
    world.machine.fail_next("create_file", 30);
    let probe = world.identity().probe(csi::ProbeRequest {}).await;
    assert_eq!(code(&probe), Code::FailedPrecondition);
    let info = world.node().node_get_info(csi::NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.node_id, NODE);
    assert_eq!(info.accessible_topology.unwrap().segments[TOPOLOGY_KEY], NODE);
}

#[tokio::test]
async fn everything_is_offered() {
    let world = World::new().await;
    let mut controller = world.controller();
    let all = controller.controller_get_capabilities(csi::ControllerGetCapabilitiesRequest {}).await.unwrap();
    assert_eq!(all.into_inner().capabilities.len(), 15);
    let all = world.node().node_get_capabilities(csi::NodeGetCapabilitiesRequest {}).await.unwrap();
    assert_eq!(all.into_inner().capabilities.len(), 6);
}
