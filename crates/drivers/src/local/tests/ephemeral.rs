//! Inline ephemeral volumes: one target, one life.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{
    Answer, World, attach, block, code, create, mount, mount_as, mount_with, publish, stage, target, text,
};
use crate::doors::Fault;

type Publish = csi::NodePublishVolumeRequest;

fn ephemeral(name: &str) -> Publish {
    let context = [("csi.storage.k8s.io/ephemeral", "true"), ("csi.storage.k8s.io/pod.name", "pod")];
    Publish {
        staging_target_path: String::new(),
        volume_context: context.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..publish("e", name, mount())
    }
}

fn set(request: &mut Publish, key: &str, value: &str) {
    request.volume_context.insert(key.into(), value.into());
}

async fn show(world: &World, request: Publish) -> Answer {
    world.node().node_publish_volume(request).await.map(drop)
}

#[tokio::test]
async fn answers_to_a_first_publish() {
    let bad = Code::InvalidArgument;
    let table: [(&str, fn(&mut Publish), Code); 21] = [
        ("as usual", |_| {}, Code::Ok),
        ("size", |r| set(r, "size", "64Mi"), Code::Ok),
        ("filesystem", |r| set(r, "fsType", "ext4"), Code::Ok),
        ("label", |r| set(r, "fsLabel", "scratch"), Code::Ok),
        ("read-only", |r| r.readonly = true, Code::Ok),
        ("read-only by flag", |r| r.volume_capability = Some(mount_with(&["ro"])), Code::Ok),
        ("no volume", |r| r.volume_id.clear(), bad),
        ("impossible id", |r| r.volume_id = "../e".into(), bad),
        ("no target", |r| r.target_path.clear(), bad),
        ("no capability", |r| r.volume_capability = None, bad),
        ("block", |r| r.volume_capability = Some(block()), bad),
        ("many nodes", |r| r.volume_capability = Some(mount_as("ext4", Mode::MultiNodeMultiWriter)), bad),
        ("no size", |r| set(r, "size", "0"), bad),
        ("strange size", |r| set(r, "size", "much"), bad),
        ("strange filesystem", |r| set(r, "fsType", "zfs"), bad),
        ("two filesystems", |r| set(r, "fsType", "xfs"), bad),
        ("misspelt", |r| set(r, "sise", "1Gi"), bad),
        ("harmful option", |r| set(r, "mkfsOptions", "-d etc"), bad),
        ("larger than the pool", |r| set(r, "size", "2Ti"), Code::OutOfRange),
        ("in the pool", |r| r.target_path = "/var/lib/pool/e".into(), bad),
        ("not ephemeral", |r| set(r, "csi.storage.k8s.io/ephemeral", "false"), Code::NotFound),
    ];
    for (name, change, expected) in table {
        let world = World::new().await;
        let mut request = ephemeral("a");
        change(&mut request);
        let answer = show(&world, request.clone()).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        if expected == Code::Ok {
            show(&world, request).await.expect("repeated");
            assert_eq!(world.machine.mounts().len(), 1, "{name}");
            world.unpublish("e", "a").await.unwrap();
            world.unpublish("e", "a").await.expect("repeated");
        }
        world.assert_clean(name).await;
    }
}

/// Nothing but this call comes for it.
#[tokio::test]
async fn a_quarantined_one_keeps_no_device() {
    let world = World::new().await;
    show(&world, ephemeral("a")).await.unwrap();
    let world = world.quarantine("e").await;
    world.unpublish("e", "a").await.unwrap();
    assert_eq!((world.machine.loops(), world.machine.mounts()), (Vec::new(), Vec::new()));
    assert!(world.exists(&world.image("e")).await, "what it is cannot be told, so it stays");
}

#[tokio::test]
async fn sizes_and_kinds() {
    let world = World::new().await;
    let mut request = ephemeral("a");
    request.volume_capability = Some(mount_as("", Mode::SingleNodeWriter));
    set(&mut request, "fsType", "xfs");
    show(&world, request).await.unwrap();
    let mount = &world.machine.mounts()[0];
    assert_eq!((mount.fs_type.as_str(), &mount.target), ("xfs", &target("a")));
    assert_eq!(
        world.host.disk.length(&world.image("e")).await.unwrap(),
        300 << 20,
        "raised to what xfs needs"
    );
    show(&world, Publish { volume_id: "f".into(), ..ephemeral("b") }).await.unwrap();
    assert_eq!(world.host.disk.length(&world.image("f")).await.unwrap(), 100 << 20, "the default");
}

#[tokio::test]
async fn answers_to_a_second_publish() {
    let table: [(&str, fn(&mut Publish), Code); 6] = [
        ("the same", |_| {}, Code::Ok),
        ("read-only", |r| r.readonly = true, Code::AlreadyExists),
        ("other flags", |r| r.volume_capability = Some(mount_with(&["noatime"])), Code::AlreadyExists),
        ("larger", |r| set(r, "size", "200Mi"), Code::AlreadyExists),
        ("label", |r| set(r, "fsLabel", "x"), Code::AlreadyExists),
        ("another target", |r| r.target_path = text(target("b")), Code::FailedPrecondition),
    ];
    let world = World::new().await;
    show(&world, ephemeral("a")).await.unwrap();
    let file = target("a").join("file");
    world.host.disk.write_atomic(&file, b"data", 0o600).await.unwrap();
    for (name, change, expected) in table {
        let mut request = ephemeral("a");
        change(&mut request);
        assert_eq!(code(&show(&world, request).await), expected, "{name}");
        assert_eq!(world.host.disk.read(&file).await.unwrap(), b"data", "{name}: the first stays");
        assert!(!world.exists(&target("b")).await, "{name}");
    }
    world.unpublish("e", "b").await.expect("nothing there");
    assert_eq!(world.host.disk.read(&file).await.unwrap(), b"data", "another target is none of its own");
}

/// What belongs to a claim is neither taken for a pod's own nor deleted like it, and the reverse.
#[tokio::test]
async fn lives_do_not_mix() {
    let world = World::new().await;
    world.staged("e", mount()).await;
    world.publish("e", "a", mount()).await.unwrap();
    assert_eq!(code(&show(&world, ephemeral("b")).await), Code::AlreadyExists);
    world.unpublish("e", "a").await.unwrap();
    assert!(world.exists(&world.image("e")).await, "a persistent volume survives its target");

    show(&world, Publish { volume_id: "f".into(), ..ephemeral("b") }).await.unwrap();
    let listed = world.controller().list_volumes(csi::ListVolumesRequest::default()).await.unwrap();
    let listed: Vec<_> =
        listed.into_inner().entries.into_iter().filter_map(|e| Some(e.volume?.volume_id)).collect();
    assert_eq!(listed, ["e"]);
    let get = csi::ControllerGetVolumeRequest { volume_id: "f".into() };
    let codes = [
        code(&world.controller().controller_get_volume(get).await),
        code(&world.controller().controller_publish_volume(attach("f", "node-1", mount())).await),
        code(&world.node().node_stage_volume(stage("f", mount())).await),
        code(&world.publish("f", "c", mount()).await),
    ];
    assert_eq!(codes, [Code::NotFound; 4]);
    assert_eq!(code(&world.controller().create_volume(create("f", mount())).await), Code::AlreadyExists);
    assert_eq!(code(&world.delete("f").await), Code::FailedPrecondition, "published");
    world.unpublish("f", "b").await.unwrap();
    assert!(!world.exists(&world.image("f")).await);
}

#[tokio::test]
async fn data_survives_a_reboot_and_nothing_else() {
    let world = World::new().await;
    show(&world, ephemeral("a")).await.unwrap();
    world.host.disk.write_atomic(&target("a").join("file"), b"data", 0o600).await.unwrap();
    world.machine.reboot();
    let world = world.restart().await;
    world.machine.fail_next("mount", 5);
    assert_eq!(code(&show(&world, ephemeral("a")).await), Code::Internal);
    assert_eq!(world.machine.loops(), []);
    show(&world, ephemeral("a")).await.unwrap();
    assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data");
    world.machine.reboot();
    let world = world.restart().await;
    world.unpublish("e", "a").await.expect("unmounted already");
    world.assert_clean("deleted without being mounted").await;
}

#[tokio::test]
async fn a_part_that_is_still_in_use_keeps_it() {
    let world = World::new().await;
    show(&world, ephemeral("a")).await.unwrap();
    world.host.disk.create_dir_all(&target("b"), 0o755).await.unwrap();
    world.host.kernel.bind(&target("a"), &target("b"), false).await.unwrap();
    let refused = world.unpublish("e", "a").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("/var/lib/pods/b"), "{refused}");
    world.host.kernel.unmount(&target("b")).await.unwrap();
    world.host.disk.remove_dir(&target("b")).await.unwrap();
    world.unpublish("e", "a").await.unwrap();
    world.assert_clean("after the part has gone").await;
}

#[tokio::test]
async fn a_group_is_given_at_the_target() {
    use bowline_proto::csi::v1::volume_capability::{AccessType, MountVolume};
    let world = World::new().await;
    let mut request = ephemeral("a");
    let mount = MountVolume { volume_mount_group: "7".into(), ..Default::default() };
    request.volume_capability.as_mut().unwrap().access_type = Some(AccessType::Mount(mount));
    world.machine.fail_next("set_group", 5);
    assert_eq!(code(&show(&world, request.clone()).await), Code::Internal);
    world.assert_clean("taken back, as nobody saw it").await;
    show(&world, request).await.unwrap();
    assert_eq!(world.machine.group(&target("a")), Some(7));
}

/// Publish, then unpublish, under a fault; each is repeated until it is answered. Returns whether the fault struck.
async fn survives(fault: Fault) -> bool {
    let mut world = World::with_fault(fault).await;
    let mut struck = false;
    for publishes in [true, false] {
        let mut tries = 0;
        loop {
            let call = async {
                if publishes { show(&world, ephemeral("a")).await } else { world.unpublish("e", "a").await }
            };
            let answer = tokio::select! {
                biased;
                () = world.faults.died.notified() => None,
                answer = call => Some(answer),
            };
            match answer {
                Some(Ok(())) => break,
                Some(Err(status)) => {
                    assert!(tries < 3, "{fault:?}: publish {publishes} keeps failing: {status}");
                    tries += 1;
                }
                None => world = world.restart().await,
            }
            struck = true;
        }
        assert_eq!(world.machine.mounts().len(), usize::from(publishes), "{fault:?}");
    }
    // A directory that could not be removed goes at the next start.
    world.restart().await.assert_clean(&format!("{fault:?}")).await;
    struck
}

/// A pod that is deleted before its volume was ready: unpublish finds whatever publish left.
async fn undone(fault: Fault) -> bool {
    let world = World::with_fault(fault).await;
    let died = tokio::select! {
        biased;
        () = world.faults.died.notified() => true,
        answer = show(&world, ephemeral("a")) => { answer.unwrap(); false }
    };
    let world = world.restart().await;
    world.unpublish("e", "a").await.unwrap_or_else(|status| panic!("{fault:?}: {status}"));
    world.assert_clean(&format!("undone {fault:?}")).await;
    died
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_any_effect() {
    for kind in [Fault::DieBefore, Fault::DieAfter, Fault::Fail] {
        let mut number = 1;
        while survives(kind(number)).await {
            number += 1;
        }
        assert!(number > 15, "{number} effects from publish to unpublish");
    }
}

#[tokio::test(start_paused = true)]
async fn unpublish_of_a_half_made_one() {
    for kind in [Fault::DieBefore, Fault::DieAfter] {
        let mut number = 1;
        while undone(kind(number)).await {
            number += 1;
        }
        assert!(number > 8, "{number} effects of publish");
    }
}

/// A failure that nobody follows up leaves nothing.
#[tokio::test(start_paused = true)]
async fn a_failed_publish_takes_back_what_it_made() {
    let mut number = 1;
    loop {
        let world = World::with_fault(Fault::Fail(number)).await;
        if show(&world, ephemeral("a")).await.is_ok() {
            break;
        }
        world.assert_clean(&format!("effect {number} failed")).await;
        number += 1;
    }
    assert!(number > 8, "{number} effects of publish");
}

/// The caller goes, the work goes on, the repeat gets the answer.
#[tokio::test(start_paused = true)]
async fn a_lost_answer() {
    let world = World::with_fault(Fault::Stall(1)).await;
    let impatient = tokio::time::timeout(std::time::Duration::from_secs(1), show(&world, ephemeral("a")));
    assert!(impatient.await.is_err());
    assert_eq!(code(&show(&world, ephemeral("a")).await), Code::Aborted);
    assert_eq!(code(&world.unpublish("e", "a").await), Code::Aborted);
    world.faults.resume.notify_one();
    let mut answer = show(&world, ephemeral("a")).await;
    for _ in 0..100 {
        if code(&answer) != Code::Aborted {
            break;
        }
        tokio::task::yield_now().await;
        answer = show(&world, ephemeral("a")).await;
    }
    answer.unwrap();
    assert_eq!(world.machine.mounts().len(), 1);
    world.unpublish("e", "a").await.unwrap();
    world.assert_clean("after a lost answer").await;
}

/// Callers ask for the figures of every mounted volume, and the driver says what it knows of its health.
#[tokio::test]
async fn it_has_figures_and_a_condition_at_its_target() {
    let world = World::new().await;
    show(&world, ephemeral("a")).await.unwrap();
    let request = csi::NodeGetVolumeStatsRequest {
        volume_id: "e".into(),
        volume_path: text(target("a")),
        ..Default::default()
    };
    let stats = world.node().node_get_volume_stats(request).await.unwrap().into_inner();
    assert!(!stats.usage.is_empty());
    assert!(!stats.volume_condition.unwrap().abnormal);
    let get = csi::ControllerGetVolumeRequest { volume_id: "e".into() };
    assert_eq!(
        code(&world.controller().controller_get_volume(get).await),
        Code::NotFound,
        "not the controller's"
    );
}
