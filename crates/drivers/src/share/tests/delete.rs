//! DeleteVolume: gone means gone, in use means untouched.

use std::path::Path;

use tonic::Code;

use super::world::{World, code, data, target};

#[tokio::test]
async fn everything_in_it_goes_and_nothing_else() {
    let world = World::new().await;
    let outside = Path::new("/var/lib/outside");
    world.host.disk.create_dir_all(outside, 0o755).await.unwrap();
    world.write(&outside.join("kept")).await.unwrap();
    for _ in 0..2 {
        world.create("v").await.unwrap();
        world.publish("v", "a").await.unwrap();
        world.host.disk.create_dir_all(&target("a").join("deep/er"), 0o755).await.unwrap();
        world.write(&target("a").join("deep/er/file")).await.unwrap();
        world.host.disk.symlink(outside, &target("a").join("deep/link")).await.unwrap();
        world.unpublish("v", "a").await.unwrap();
        world.delete("v").await.unwrap();
        world.delete("v").await.expect("twice");
        world.assert_clean("deleted").await;
    }
    assert_eq!(world.host.disk.read(&outside.join("kept")).await.unwrap(), b"data");
}

#[tokio::test]
async fn unknown_and_malformed_ids_are_already_gone() {
    let world = World::new().await;
    for id in ["fake-vol-id", "../../etc", "a/b", "..", "ä"] {
        assert_eq!(code(&world.delete(id).await), Code::Ok, "{id}");
    }
    assert_eq!(code(&world.delete("").await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_volume_in_use_is_refused_and_untouched() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.publish("v", "a").await.unwrap();
    world.write(&target("a").join("file")).await.unwrap();
    let before = world.machine.files();

    let refused = world.delete("v").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("/var/lib/pods/a"), "{refused}");

    // A workload's part of it, as a kubelet binds it for `subPath`.
    let part = target("part");
    world.host.disk.create_dir_all(&target("a").join("sub"), 0o755).await.unwrap();
    world.host.disk.create_dir_all(&part, 0o755).await.unwrap();
    world.host.kernel.bind(&target("a").join("sub"), &part, false).await.unwrap();
    world.unpublish("v", "a").await.unwrap();
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition, "a part of it shows");
    world.host.kernel.unmount(&part).await.unwrap();
    world.host.disk.remove_dir(&part).await.unwrap();

    // Something of somebody else, mounted inside the directory.
    let inside = data("v").join("sub");
    world.host.kernel.bind(Path::new("/tmp"), &inside, false).await.unwrap();
    let refused = world.delete("v").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("/sub"), "{refused}");
    world.host.kernel.unmount(&inside).await.unwrap();

    assert_eq!(world.machine.files(), before);
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

/// What is being deleted is never seen again, and never made again before it has gone.
#[tokio::test]
async fn half_deleted_is_deleted() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    for operation in ["remove_tree", "remove_file", "remove_dir"] {
        world.machine.fail_next(operation, 5);
        assert_eq!(code(&world.delete("v").await), Code::Internal, "{operation}");
        assert_eq!(code(&world.publish("v", "a").await), Code::NotFound, "{operation}");
        if operation != "remove_dir" {
            assert_eq!(code(&world.create("v").await), Code::Aborted, "{operation}");
        }
    }
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}
