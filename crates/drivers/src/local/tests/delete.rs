//! DeleteVolume: gone means gone, in use means untouched.

use tonic::Code;

use super::world::{World, block, code, mount};

#[tokio::test]
async fn unknown_and_malformed_ids_are_already_gone() {
    let world = World::new().await;
    for id in ["fake-vol-id", "../../etc", "a/b", "..", "ä", &"x".repeat(300)] {
        assert_eq!(code(&world.delete(id).await), Code::Ok, "{id}");
    }
    assert_eq!(code(&world.delete("").await), Code::InvalidArgument);
}

#[tokio::test]
async fn twice_and_again_after_the_name_is_reused() {
    let world = World::new().await;
    for _ in 0..2 {
        world.create("v").await.unwrap();
        world.delete("v").await.unwrap();
        world.delete("v").await.unwrap();
        world.assert_clean("deleted").await;
    }
}

#[tokio::test]
async fn a_volume_in_use_is_refused_and_untouched() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    let before = world.machine.files();

    let answer = world.delete("v").await;
    assert_eq!(code(&answer), Code::FailedPrecondition, "published");
    assert!(answer.unwrap_err().message().contains("node-1"));

    world.detach("v").await.unwrap();
    let answer = world.delete("v").await;
    assert_eq!(code(&answer), Code::FailedPrecondition, "staged");
    assert!(answer.unwrap_err().message().contains("/dev/loop"));
    assert!(world.exists(&world.image("v")).await);
    assert_eq!(world.machine.files().len(), before.len());

    world.unstage("v").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

/// Its staging shows nowhere, and what the record says of it may be out of date.
#[tokio::test]
async fn a_block_volume_is_in_use_as_long_as_something_has_its_device() {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.publish("v", "a", block()).await.unwrap();
    world.detach("v").await.unwrap();
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition, "a target shows it");
    world.unpublish("v", "a").await.unwrap();
    world.machine.fail_next("loop_detach", 16);
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition, "a process has it open");
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

/// A staging failed, and so did letting go of its device; nobody comes back to unstage it.
#[tokio::test]
async fn a_device_left_attached_does_not_keep_the_volume() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.machine.fail_next("mount", 5);
    world.machine.fail_next("loop_detach", 16);
    world.stage("v", mount()).await.unwrap_err();
    assert_eq!(world.machine.loops().len(), 1);
    world.detach("v").await.unwrap();
    world.machine.fail_next("loop_detach", 16);
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition, "somebody else has it");
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

/// The last step failed once; the repeat finds no record and still has to finish.
#[tokio::test]
async fn a_directory_left_behind_goes_with_the_repeat() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.machine.fail_next("remove_dir", 5);
    assert_eq!(code(&world.delete("v").await), Code::Internal);
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}
