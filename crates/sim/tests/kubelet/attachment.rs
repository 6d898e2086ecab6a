//! What attaching left for the driver comes from the attachment that is there now, and what a driver can do from the
//! process that runs now.

use bowline_api::build;
use tonic::Code;

use super::driver::Fault;
use super::world::World;

/// B1: the answer to a stage is lost, and the volume is attached again elsewhere before the repeat.
#[tokio::test(start_paused = true)]
async fn a_repeated_stage_names_the_device_of_the_new_attachment() {
    let mut world = World::new(31).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(true).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    world.attach_all(&["data"]).await;
    world.driver.plan("stage", Fault::Lose(Code::DeadlineExceeded));
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("staged once", |w| !w.driver.devices().is_empty()).await;
    world.attach_again("data", "/dev/y").await;
    world.until("running", |w| w.phase("p") == "Running").await;
    assert_eq!(world.driver.devices(), ["stage /dev/x", "stage /dev/y", "publish /dev/y"]);
}

/// A second pod of a volume that is staged already.
#[tokio::test(start_paused = true)]
async fn a_publish_names_the_device_of_the_new_attachment() {
    let mut world = World::new(32).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(true).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    world.attach_all(&["data"]).await;
    world.pod(build::pod("one").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("one") == "Running").await;
    world.attach_again("data", "/dev/y").await;
    world.pod(build::pod("two").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("two") == "Running").await;
    assert_eq!(world.driver.devices(), ["stage /dev/x", "publish /dev/x", "publish /dev/y"]);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_was_replaced_behind_its_socket_is_asked_again_what_it_can_do() {
    let mut world = World::with_claim(33).await;
    let pod = |name: &str| {
        let mut pod = build::pod(name).shell("sleep 9").mount("data", "/data").build();
        let context = serde_json::json!({"fsGroup": 2000});
        pod.spec.as_mut().unwrap().security_context = serde_json::from_value(context).unwrap();
        pod
    };
    world.pod(pod("one")).await;
    world.until("running", |w| w.phase("one") == "Running").await;
    world.replace_driver(super::driver::TestDriver::set_mount_group).await;
    world.pod(pod("two")).await;
    world.until("running", |w| w.phase("two") == "Running").await;
    assert_eq!(
        world.driver.groups(),
        ["", "", "2000"],
        "stage and publish of the first, publish of the second"
    );
}
