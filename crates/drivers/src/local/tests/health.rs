//! Damage done behind the driver's back, and who hears of it when.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_host::disk::Space;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::VolumeHealthErrorType::{DataLoss, Degraded, Inaccessible};
use bowline_proto::csi::v1::{controller_service_capability, node_service_capability};
use tonic::{Code, Status};

use super::world::{World, block, code, config, create, mount, mount_with, staging};
use crate::doors::Fault;
use crate::id::VolumeId;
use crate::local::driver::Driver;
use crate::local::{Dialect, LocalConfig};

const EIO: i32 = 5;

fn healthy() -> LocalConfig {
    LocalConfig { dialect: Dialect::V1_13, ..config() }
}

type Seen = Vec<(csi::VolumeHealthErrorType, String)>;

fn entries(health: csi::VolumeHealth) -> Seen {
    health.health_statuses.into_iter().map(|entry| (entry.status(), entry.reason)).collect()
}

/// What controller and node say of a volume after a look; both say the same.
async fn look(world: &World, id: &str) -> Result<Seen, Status> {
    let request = csi::ControllerGetVolumeHealthRequest { volume_id: id.into(), ..Default::default() };
    let controller = world.controller().controller_get_volume_health(request).await?.into_inner();
    let request = csi::NodeGetVolumeHealthRequest { volume_id: id.into(), ..Default::default() };
    let node = world.node().node_get_volume_health(request).await?.into_inner();
    assert_eq!(controller.volume_health, node.volume_health);
    Ok(entries(controller.volume_health.unwrap()))
}

/// What the list has of everything, without a look.
async fn listed(world: &World) -> Vec<String> {
    let answer = world
        .controller()
        .controller_list_volume_health(csi::ControllerListVolumeHealthRequest::default())
        .await
        .unwrap();
    answer.into_inner().entries.into_iter().map(|health| health.volume_id).collect()
}

async fn get_condition(world: &World, id: &str) -> Option<csi::VolumeCondition> {
    let request = csi::ControllerGetVolumeRequest { volume_id: id.into() };
    let answer = world.controller().controller_get_volume(request).await.unwrap().into_inner();
    answer.status.unwrap().volume_condition
}

async fn listed_conditions(world: &World) -> Vec<Option<csi::VolumeCondition>> {
    let answer = world.controller().list_volumes(csi::ListVolumesRequest::default()).await.unwrap();
    answer.into_inner().entries.into_iter().map(|entry| entry.status.unwrap().volume_condition).collect()
}

fn found(status: csi::VolumeHealthErrorType, reason: &str) -> Seen {
    vec![(status, reason.to_owned())]
}

/// The loop device of the only attached image.
fn device(world: &World) -> PathBuf {
    world.machine.loops()[0].0.clone()
}

#[tokio::test(start_paused = true)]
async fn each_dialect_has_its_own_words() {
    use controller_service_capability::rpc::Type as Controller;
    use node_service_capability::rpc::Type as Node;
    for dialect in [Dialect::V1_12, Dialect::V1_13] {
        let world = World::with(LocalConfig { dialect, ..config() }).await;
        world.create("v").await.unwrap();
        let new = dialect == Dialect::V1_13;
        let request = csi::ControllerGetCapabilitiesRequest {};
        let wire =
            world.controller().controller_get_capabilities(request).await.unwrap().into_inner().capabilities;
        let can = |wanted: Controller| {
            let rpc = controller_service_capability::Type::Rpc(controller_service_capability::Rpc {
                r#type: wanted.into(),
            });
            wire.iter().any(|capability| capability.r#type == Some(rpc))
        };
        assert_eq!(can(Controller::VolumeCondition), !new);
        assert_eq!(can(Controller::GetVolumeHealth), new);
        assert_eq!(can(Controller::ListVolumeHealth), new);
        let request = csi::NodeGetCapabilitiesRequest {};
        let wire = world.node().node_get_capabilities(request).await.unwrap().into_inner().capabilities;
        let can = |wanted: Node| {
            let rpc =
                node_service_capability::Type::Rpc(node_service_capability::Rpc { r#type: wanted.into() });
            wire.iter().any(|capability| capability.r#type == Some(rpc))
        };
        assert_eq!(can(Node::GetVolumeHealth), new);
        assert_eq!(can(Node::GetStorageHealth), new);

        let expected = if new { Code::Ok } else { Code::Unimplemented };
        assert_eq!(code(&look(&world, "v").await), expected);
        assert_eq!(
            code(
                &world
                    .controller()
                    .controller_list_volume_health(csi::ControllerListVolumeHealthRequest::default())
                    .await
                    .map(drop)
            ),
            expected
        );
        assert_eq!(
            code(
                &world
                    .node()
                    .node_get_storage_health(csi::NodeGetStorageHealthRequest::default())
                    .await
                    .map(drop)
            ),
            expected
        );
        assert_eq!(get_condition(&world, "v").await.is_some(), !new);
        assert_eq!(listed_conditions(&world).await[0].is_some(), !new);
    }
}

#[tokio::test(start_paused = true)]
async fn arguments() {
    let world = World::with(healthy()).await;
    world.create("v").await.unwrap();
    assert_eq!(code(&look(&world, "").await), Code::InvalidArgument);
    assert_eq!(code(&look(&world, "nosuch").await), Code::NotFound);
    assert_eq!(code(&look(&world, "../v").await), Code::NotFound);
    let table = [
        ("", "", Code::Ok),
        ("/t", "/s", Code::Ok),
        ("t", "", Code::InvalidArgument),
        ("", "/a/../b", Code::InvalidArgument),
    ];
    for (publish, staging, expected) in table {
        let request = csi::NodeGetVolumeHealthRequest {
            volume_id: "v".into(),
            volume_publish_path: publish.into(),
            staging_target_path: staging.into(),
        };
        let answer = world.node().node_get_volume_health(request).await;
        assert_eq!(code(&answer), expected, "{publish:?} {staging:?}");
    }
    let table = [
        ("", 0, Code::Ok),
        ("after:v", 1, Code::Ok),
        ("invalid-token", 0, Code::Aborted),
        ("", -1, Code::InvalidArgument),
    ];
    for (token, max_entries, expected) in table {
        let starting_token = token.into();
        let request =
            csi::ControllerListVolumeHealthRequest { max_entries, starting_token, ..Default::default() };
        let answer = world.controller().controller_list_volume_health(request).await;
        assert_eq!(code(&answer), expected, "{token:?} {max_entries}");
    }
}

/// A list tells what the last look found; a start looks at every image.
#[tokio::test(start_paused = true)]
async fn a_missing_image_is_data_loss() {
    let world = World::with(healthy()).await;
    world.create("v").await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), []);
    world.host.disk.remove_file(&world.image("v")).await.unwrap();
    assert_eq!(listed(&world).await, Vec::<String>::new(), "a list does not look");
    assert_eq!(look(&world, "v").await.unwrap(), found(DataLoss, "ImageMissing"));
    assert_eq!(listed(&world).await, ["v"]);
    let world = world.restart().await;
    assert_eq!(listed(&world).await, ["v"], "seen at start");

    world.host.disk.create_dir_all(&world.image("v"), 0o755).await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), found(DataLoss, "ImageMissing"), "a directory is no image");
    world.host.disk.remove_dir(&world.image("v")).await.unwrap();
    world.host.disk.create_sparse(&world.image("v"), 1 << 20).await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), found(DataLoss, "ImageTruncated"));
    let world = world.restart().await;
    assert_eq!(listed(&world).await, ["v"], "seen at start");
    world.host.disk.create_sparse(&world.image("v"), 64 << 20).await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), [], "somebody put it back");
    assert_eq!(listed(&world).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn conditions_of_the_older_version() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    assert!(!get_condition(&world, "v").await.unwrap().abnormal);
    world.host.disk.remove_file(&world.image("v")).await.unwrap();
    assert!(!listed_conditions(&world).await[0].as_ref().unwrap().abnormal, "a list does not look");
    let condition = get_condition(&world, "v").await.unwrap();
    assert!(
        condition.abnormal && condition.message.contains("image of volume `v` is missing"),
        "{condition:?}"
    );
    assert_eq!(listed_conditions(&world).await, [Some(condition)]);
    world.delete("v").await.unwrap();
    world.create("v").await.unwrap();
    assert!(
        !listed_conditions(&world).await[0].as_ref().unwrap().abnormal,
        "another volume of the same name"
    );
}

#[tokio::test(start_paused = true)]
async fn a_device_that_vanished() {
    let world = World::with(healthy()).await;
    world.staged("v", block()).await;
    assert_eq!(look(&world, "v").await.unwrap(), []);
    let world = world.restart().await;
    world.host.kernel.loop_detach(&device(&world)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(look(&world, "v").await.unwrap(), found(Inaccessible, "DeviceVanished"));
    }
    assert_eq!(listed(&world).await, ["v"]);
    world.unstage("v").await.unwrap();
    assert_eq!(listed(&world).await, Vec::<String>::new(), "nobody expects a device now");
    assert_eq!(look(&world, "v").await.unwrap(), []);

    world.stage("v", block()).await.unwrap();
    world.host.kernel.loop_detach(&device(&world)).await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), found(Inaccessible, "DeviceVanished"));
    world.stage("v", block()).await.unwrap();
    assert_eq!(listed(&world).await, Vec::<String>::new(), "staging brings it back");
}

/// The kernel names images without links, whatever the pool is called.
#[tokio::test(start_paused = true)]
async fn a_device_that_vanished_from_a_pool_behind_a_link() {
    let (_, machine) = bowline_host::fake::host(7);
    let host = machine.host();
    host.disk.create_dir_all(Path::new("/var/lib/real"), 0o755).await.unwrap();
    host.disk.symlink(Path::new("real"), Path::new("/var/lib/linked")).await.unwrap();
    let config = LocalConfig { pool: "/var/lib/linked".into(), ..healthy() };
    let open = async || Driver::open(host.clone(), config.clone()).await.unwrap();
    let id = VolumeId::for_name("v");
    let request = crate::local::parse::create_volume(create("v", block())).unwrap();
    let driver = open().await;
    crate::local::provision::create(&driver, request).await.unwrap();
    let device = host.kernel.loop_attach(&driver.pool.image(&id), false).await.unwrap();
    drop(driver);
    let driver = open().await;
    host.kernel.loop_detach(&device).await.unwrap();
    let findings = crate::local::health::of(&driver, &id).await.unwrap();
    assert_eq!(findings.iter().map(|finding| finding.reason).collect::<Vec<_>>(), ["DeviceVanished"]);
}

/// A device that the driver itself took away has not vanished, whatever failed afterwards.
#[tokio::test(start_paused = true)]
async fn a_failed_staging_is_no_vanished_device() {
    let world = World::with(healthy()).await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.host.kernel.loop_attach(&world.image("v"), false).await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), [], "left by a crash, and seen");
    world.machine.fail_next("mount", EIO);
    assert_eq!(code(&world.stage("v", mount()).await), Code::Internal);
    assert_eq!(world.machine.loops(), []);
    assert_eq!(look(&world, "v").await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_filesystem_with_errors() {
    let world = World::with(healthy()).await;
    world.staged("v", mount()).await;
    assert_eq!(look(&world, "v").await.unwrap(), []);
    world.machine.set_errors(&world.image("v"), 3);
    assert_eq!(look(&world, "v").await.unwrap(), found(Degraded, "FilesystemErrors"));
    world.machine.fail_filesystem(&world.image("v"));
    let both = [found(Degraded, "FilesystemErrors"), found(Degraded, "FilesystemReadOnly")].concat();
    assert_eq!(look(&world, "v").await.unwrap(), both);
    world.unstage("v").await.unwrap();
    world.stage("v", mount()).await.unwrap();
    assert_eq!(listed(&world).await, Vec::<String>::new(), "checked and mounted anew");
}

/// Read-only because somebody wanted it so is no damage.
#[tokio::test(start_paused = true)]
async fn a_read_only_mount_is_well() {
    let world = World::with(healthy()).await;
    world.staged("v", mount()).await;
    world.unstage("v").await.unwrap();
    world.detach("v").await.unwrap();
    world.attach("v", mount_with(&["ro"])).await.unwrap();
    world.stage("v", mount_with(&["ro"])).await.unwrap();
    assert!(world.machine.mounts()[0].filesystem_read_only);
    assert_eq!(look(&world, "v").await.unwrap(), []);
}

/// Not being able to look is no recovery, and no damage.
#[tokio::test(start_paused = true)]
async fn a_failed_look_changes_nothing() {
    let world = World::with(healthy()).await;
    world.staged("v", mount()).await;
    for call in ["length", "loop_of", "mount_at", "filesystem_errors"] {
        world.machine.fail_next(call, EIO);
        assert_eq!(code(&look(&world, "v").await), Code::Internal, "{call}");
        assert_eq!(listed(&world).await, Vec::<String>::new(), "{call}");
    }
    world.machine.set_errors(&world.image("v"), 1);
    look(&world, "v").await.unwrap();
    for call in ["length", "loop_of", "mount_at", "filesystem_errors"] {
        world.machine.fail_next(call, EIO);
        assert_eq!(code(&look(&world, "v").await), Code::Internal, "{call}");
        assert_eq!(listed(&world).await, ["v"], "{call}");
    }
}

/// Goal: what an operation has half done is never taken for damage.
/// Method: stop each operation before each of its effects and look meanwhile.
#[tokio::test(start_paused = true)]
async fn operations_are_no_damage() {
    for operation in ["stage", "unstage", "delete"] {
        for effect in 1.. {
            let world = World::with(healthy()).await;
            world.create("v").await.unwrap();
            if operation != "delete" {
                world.attach("v", mount()).await.unwrap();
            }
            if operation == "unstage" {
                world.stage("v", mount()).await.unwrap();
            }
            let world = world.restart_with(Fault::Stall(effect)).await;
            let perform = async {
                match operation {
                    "stage" => world.stage("v", mount()).await,
                    "unstage" => world.unstage("v").await,
                    _ => world.delete("v").await,
                }
            };
            let stalled = tokio::time::timeout(Duration::from_secs(1), perform).await.is_err();
            let seen = look(&world, "v").await;
            match &seen {
                Ok(seen) => assert_eq!(*seen, [], "{operation}, effect {effect}"),
                Err(status) => assert_eq!(status.code(), Code::NotFound, "{operation}, effect {effect}"),
            }
            assert_eq!(listed(&world).await, Vec::<String>::new(), "{operation}, effect {effect}");
            if !stalled {
                assert!(effect > 2, "{operation} has effects");
                break;
            }
        }
    }
}

/// ListVolumes and ControllerListVolumeHealth touch neither disk nor kernel, so they cost the same for any number.
#[tokio::test(start_paused = true)]
async fn lists_do_not_look() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.create(name).await.unwrap();
    }
    let calls = ["length", "list", "loop_of", "loops", "mount_at", "mounts", "read", "space"];
    for call in calls {
        world.machine.fail_next(call, EIO);
    }
    assert_eq!(listed_conditions(&world).await.len(), 3);
    assert_eq!(world.machine.planned(), calls, "none of them was made");
    // A look does make them: the first one meets its failure.
    let request = csi::ControllerGetVolumeRequest { volume_id: "a".into() };
    assert_eq!(code(&world.controller().controller_get_volume(request).await), Code::Internal);
    assert_eq!(world.machine.planned(), calls[1..], "`length` comes first");
}

#[tokio::test(start_paused = true)]
async fn pages_of_the_list() {
    let world = World::with(healthy()).await;
    for name in ["a", "b", "c", "d"] {
        world.create(name).await.unwrap();
    }
    for name in ["a", "c", "d"] {
        world.host.disk.remove_file(&world.image(name)).await.unwrap();
        look(&world, name).await.unwrap();
    }
    let page = async |max_entries, token: &str| {
        let starting_token = token.into();
        let request =
            csi::ControllerListVolumeHealthRequest { max_entries, starting_token, ..Default::default() };
        let answer = world.controller().controller_list_volume_health(request).await.unwrap().into_inner();
        let ids: Vec<String> = answer.entries.into_iter().map(|health| health.volume_id).collect();
        (ids, answer.next_token)
    };
    let (first, token) = page(2, "").await;
    assert_eq!(first, ["a", "c"]);
    world.delete("c").await.unwrap();
    assert_eq!(page(2, &token).await, (vec!["d".to_owned()], String::new()), "what goes shifts nothing");
    assert_eq!(page(0, "").await, (vec!["a".to_owned(), "d".to_owned()], String::new()));
}

#[tokio::test(start_paused = true)]
async fn the_pool_as_a_whole() {
    let world = World::with(healthy()).await;
    let storage = async || {
        let answer = world
            .node()
            .node_get_storage_health(csi::NodeGetStorageHealthRequest::default())
            .await
            .unwrap()
            .into_inner();
        let reasons = answer.backend_health.into_iter().map(|health| health.reason);
        reasons.collect::<Vec<String>>()
    };
    assert_eq!(storage().await, Vec::<String>::new());
    world.machine.set_read_only(true);
    assert_eq!(storage().await, ["PoolReadOnly"]);
    world.machine.set_read_only(false);
    let space = world.host.disk.space(&staging("")).await.unwrap();
    world.machine.set_space(Space { available: 1 << 20, ..space });
    assert_eq!(storage().await, ["PoolFull"]);
    world.machine.set_space(space);
    world.machine.fail_next("space", EIO);
    assert_eq!(storage().await, ["PoolUnusable"]);
    assert_eq!(storage().await, Vec::<String>::new());
}

/// A volume in the middle of being made is not yet one that could be damaged.
#[tokio::test(start_paused = true)]
async fn what_a_crash_left_of_a_creation_is_no_damage() {
    let world = World::with(healthy()).await.restart_with(Fault::DieAfter(2)).await;
    let controller = world.controller();
    let creation = tokio::spawn(async move { controller.clone().create_volume(create("v", mount())).await });
    world.faults.died.notified().await;
    creation.abort();
    let world = world.restart().await;
    assert_eq!(listed(&world).await, Vec::<String>::new());
    assert_eq!(code(&look(&world, "v").await), Code::NotFound, "not ready");
    world.create("v").await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), []);
}

/// A published device that vanished can be taken down like any other.
#[tokio::test(start_paused = true)]
async fn the_target_of_a_vanished_device_goes() {
    let world = World::with(healthy()).await;
    world.staged("v", block()).await;
    world.publish("v", "a", block()).await.unwrap();
    world.host.kernel.loop_detach(&device(&world)).await.unwrap();
    assert_eq!(look(&world, "v").await.unwrap(), found(Inaccessible, "DeviceVanished"));
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("nothing of it is left").await;
}

/// What somebody else mounted at the target stays, device or no device.
#[tokio::test(start_paused = true)]
async fn another_mount_at_the_target_stays() {
    let world = World::with(healthy()).await;
    world.staged("v", block()).await;
    world.host.kernel.loop_detach(&device(&world)).await.unwrap();
    let other = staging("other");
    world.host.disk.create_dir_all(&other, 0o755).await.unwrap();
    world.host.disk.create_dir_all(&super::world::target("a"), 0o755).await.unwrap();
    world.host.kernel.bind(&other, &super::world::target("a"), false).await.unwrap();
    assert_eq!(code(&world.unpublish("v", "a").await), Code::FailedPrecondition);
    assert_eq!(world.machine.mounts().len(), 1);
}
