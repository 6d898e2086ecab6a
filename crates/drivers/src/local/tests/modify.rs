//! ControllerModifyVolume and mutable parameters of CreateVolume.

use std::collections::BTreeMap;

use bowline_host::kernel::Queue;
use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::world::{World, block, code, create, mount};

type Map = BTreeMap<String, String>;

fn map(entries: &[(&str, &str)]) -> Map {
    entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

async fn modify(world: &World, id: &str, entries: &[(&str, &str)]) -> Code {
    code(&world.modify(id, entries).await)
}

/// The queue of the only attached device.
fn queue(world: &World) -> Queue {
    let (device, _) = world.machine.loops().remove(0);
    world.machine.queue(&device).unwrap()
}

fn set(discard: impl Into<Option<bool>>, read_ahead_kib: Option<u32>) -> Queue {
    Queue { discard: discard.into(), read_ahead_kib }
}

/// Whether the volume confirms these mutable parameters.
async fn confirms(world: &World, entries: &[(&str, &str)]) -> bool {
    let request = csi::ValidateVolumeCapabilitiesRequest {
        volume_id: "v".into(),
        volume_capabilities: vec![mount()],
        mutable_parameters: map(entries),
        ..Default::default()
    };
    let answer = world.controller().validate_volume_capabilities(request).await.unwrap().into_inner();
    assert_eq!(answer.confirmed.is_some(), answer.message.is_empty());
    assert!(answer.confirmed.as_ref().is_none_or(|echo| echo.mutable_parameters == map(entries)));
    answer.confirmed.is_some()
}

#[tokio::test]
async fn answers() {
    let table: [(&str, &str, &[(&str, &str)], Code); 12] = [
        ("discard", "v", &[("discard", "false")], Code::Ok),
        ("both", "v", &[("discard", "true"), ("readAheadKiB", "256")], Code::Ok),
        ("nothing", "v", &[], Code::Ok),
        ("nothing, of an unknown volume", "x", &[], Code::NotFound),
        ("no volume", "", &[("discard", "true")], Code::InvalidArgument),
        ("unknown volume", "x", &[("discard", "true")], Code::NotFound),
        ("impossible volume", "../v", &[("discard", "true")], Code::NotFound),
        ("unknown key", "v", &[("XXX_FakeKey", "XXX_FakeValue")], Code::InvalidArgument),
        ("a key and an unknown one", "v", &[("discard", "true"), ("iops", "1")], Code::InvalidArgument),
        ("bad flag", "v", &[("discard", "maybe")], Code::InvalidArgument),
        ("bad number", "v", &[("readAheadKiB", "65537")], Code::InvalidArgument),
        ("a good and a bad one", "v", &[("discard", "true"), ("readAheadKiB", "-1")], Code::InvalidArgument),
    ];
    for (name, id, entries, expected) in table {
        let world = World::new().await;
        world.staged("v", mount()).await;
        let before = (world.machine.files(), queue(&world));
        assert_eq!(modify(&world, id, entries).await, expected, "{name}");
        if expected != Code::Ok {
            assert_eq!((world.machine.files(), queue(&world)), before, "{name}: nothing was applied");
        }
    }
}

#[tokio::test]
async fn applied_at_once_and_whenever_attached() {
    for capability in [mount(), block()] {
        let world = World::new().await;
        world.staged("v", capability.clone()).await;
        assert_eq!(queue(&world), Queue::default());
        assert_eq!(modify(&world, "v", &[("discard", "false")]).await, Code::Ok);
        assert_eq!(queue(&world), set(false, None));
        assert_eq!(modify(&world, "v", &[("readAheadKiB", "64")]).await, Code::Ok);
        assert_eq!(queue(&world), set(false, Some(64)), "absent keys change nothing");
        assert_eq!(modify(&world, "v", &[]).await, Code::Ok);
        assert_eq!(queue(&world), set(false, Some(64)));

        world.unstage("v").await.unwrap();
        assert_eq!(modify(&world, "v", &[("readAheadKiB", "0")]).await, Code::Ok, "while not attached");
        world.stage("v", capability.clone()).await.unwrap();
        assert_eq!(queue(&world), set(false, Some(0)));
        world.machine.reboot();
        let world = world.restart().await;
        world.stage("v", capability).await.unwrap();
        assert_eq!(queue(&world), set(false, Some(0)), "after a reboot");
    }
}

/// Linux lets discards pass again only on a new attachment. Until then everything else goes on.
#[tokio::test]
async fn discards_come_back_with_the_next_attachment() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    assert_eq!(modify(&world, "v", &[("discard", "false")]).await, Code::Ok);
    assert_eq!(modify(&world, "v", &[("discard", "true")]).await, Code::FailedPrecondition);
    assert_eq!(modify(&world, "v", &[("discard", "true")]).await, Code::FailedPrecondition, "repeated");
    assert!(confirms(&world, &[("discard", "true")]).await, "recorded");
    assert_eq!(queue(&world), set(false, None));
    assert_eq!(modify(&world, "v", &[("readAheadKiB", "8")]).await, Code::Ok, "another matter");
    let both = [("discard", "true"), ("readAheadKiB", "16")];
    assert_eq!(modify(&world, "v", &both).await, Code::FailedPrecondition);
    assert_eq!(queue(&world), set(false, Some(16)), "what can be done is done");

    let world = world.restart().await;
    world.stage("v", mount()).await.expect("staged already");
    world.publish("v", "a", mount()).await.expect("usable");
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    world.stage("v", mount()).await.unwrap();
    assert_eq!(queue(&world), set(true, Some(16)));
    assert_eq!(modify(&world, "v", &[("discard", "true")]).await, Code::Ok);
}

#[tokio::test]
async fn an_error_while_applying_is_not_the_callers() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.machine.fail_next("set_queue", 22);
    assert_eq!(modify(&world, "v", &[("discard", "false")]).await, Code::Internal);
    assert!(confirms(&world, &[("discard", "false")]).await, "recorded all the same");
    assert_eq!(modify(&world, "v", &[("discard", "false")]).await, Code::Ok);
    assert_eq!(queue(&world), set(false, None), "a repeat applies what is recorded");

    world.machine.fail_next("set_queue", 5);
    assert_eq!(modify(&world, "v", &[("readAheadKiB", "8")]).await, Code::Internal);
    let world = world.restart().await;
    assert_eq!(queue(&world), set(false, Some(8)), "and so does a start");
}

#[tokio::test]
async fn a_device_that_resists_does_not_stop_the_start() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    assert_eq!(modify(&world, "v", &[("discard", "false")]).await, Code::Ok);
    world.machine.fail_next("set_queue", 5);
    let world = world.restart().await;
    world.unstage("v").await.unwrap();
}

#[tokio::test]
async fn validation_knows_what_is_recorded() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    assert!(!confirms(&world, &[("discard", "true")]).await, "never set");
    assert_eq!(modify(&world, "v", &[("discard", "true"), ("readAheadKiB", "8")]).await, Code::Ok);
    let world = world.restart().await;
    assert!(confirms(&world, &[("discard", "true")]).await);
    assert!(confirms(&world, &[("discard", "true"), ("readAheadKiB", "8")]).await);
    assert!(!confirms(&world, &[("discard", "false")]).await);
    assert!(!confirms(&world, &[("discard", "true"), ("readAheadKiB", "9")]).await);
    assert!(!confirms(&world, &[("readAheadKiB", "x")]).await);
    assert!(!confirms(&world, &[("iops", "1")]).await);
}

#[tokio::test]
async fn creation_takes_settings_from_both_maps() {
    let table: [(&str, &[(&str, &str)], &[(&str, &str)], Result<Queue, Code>); 7] = [
        ("neither", &[], &[], Ok(Queue::default())),
        ("mutable", &[], &[("discard", "false"), ("readAheadKiB", "8")], Ok(set(false, Some(8)))),
        ("parameters", &[("readAheadKiB", "8")], &[], Ok(set(None, Some(8)))),
        ("mutable ones win", &[("discard", "true")], &[("discard", "false")], Ok(set(false, None))),
        (
            "key by key",
            &[("discard", "true"), ("readAheadKiB", "8")],
            &[("discard", "false")],
            Ok(set(false, Some(8))),
        ),
        ("unknown", &[], &[("XXX_FakeKey", "XXX_FakeValue")], Err(Code::InvalidArgument)),
        ("bad, though overridden", &[("discard", "?")], &[("discard", "true")], Err(Code::InvalidArgument)),
    ];
    for (name, parameters, mutable_parameters, expected) in table {
        let world = World::new().await;
        let mut request = create("v", mount());
        request.parameters = map(parameters);
        request.mutable_parameters = map(mutable_parameters);
        let answer = world.controller().create_volume(request.clone()).await;
        match expected {
            Err(expected) => {
                assert_eq!(code(&answer), expected, "{name}");
                world.assert_clean(name).await;
            }
            Ok(expected) => {
                answer.unwrap();
                world.controller().create_volume(request.clone()).await.expect("the same again");
                request.mutable_parameters.insert("readAheadKiB".into(), "9".into());
                let other = world.controller().create_volume(request).await;
                assert_eq!(code(&other), Code::AlreadyExists, "{name}");
                world.attach("v", mount()).await.unwrap();
                world.stage("v", mount()).await.unwrap();
                assert_eq!(queue(&world), expected, "{name}");
            }
        }
    }
}
