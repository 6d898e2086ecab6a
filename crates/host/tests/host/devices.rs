//! Loop devices as block devices: sizes, lists, queues, and space given back.

use std::path::{Path, PathBuf};

use bowline_host::kernel::{LoopDevice, Queue};
use nix::libc;

use crate::world::{World, errno, program};

const MIB: u64 = 1 << 20;

fn queue_file(device: &Path, name: &str) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap()).join("queue").join(name)
}

fn setting(device: &Path, name: &str) -> u64 {
    std::fs::read_to_string(queue_file(device, name)).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn devices_are_measured_flushed_and_listed() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    let image = std::fs::canonicalize(world.dir(".")).unwrap().join("image");
    let device = world.device("image", 8).await;
    assert_eq!(kernel.device_size(&device).await.unwrap(), 8 * MIB);
    disk.create_sparse(&image, 16 * MIB).await.unwrap();
    assert_eq!(kernel.device_size(&device).await.unwrap(), 8 * MIB, "not before it is told");
    kernel.loop_refresh(&device).await.unwrap();
    assert_eq!(kernel.device_size(&device).await.unwrap(), 16 * MIB);
    kernel.flush(&device).await.unwrap();
    assert_eq!(errno(&kernel.device_size(&image).await.unwrap_err()), libc::ENOTBLK);
    assert_eq!(errno(&kernel.flush(&world.path("none")).await.unwrap_err()), libc::ENOENT);

    let mine = || async {
        let all = kernel.loops().await.unwrap();
        all.into_iter().find(|found| found.device == device)
    };
    let mut expected =
        LoopDevice { device: device.clone(), image: image.clone(), deleted: false, read_only: false };
    assert_eq!(mine().await.as_ref(), Some(&expected));
    let renamed = image.with_file_name("a new name");
    disk.rename(&image, &renamed).await.unwrap();
    expected.image = renamed.clone();
    assert_eq!(mine().await.as_ref(), Some(&expected), "a device goes with its image");
    assert_eq!(kernel.loop_of(&renamed).await.unwrap().as_ref(), Some(&device));
    assert_eq!(kernel.loop_of(&image).await.unwrap(), None);
    disk.remove_file(&renamed).await.unwrap();
    expected.deleted = true;
    assert_eq!(mine().await.as_ref(), Some(&expected));
    kernel.loop_detach(&device).await.unwrap();
    let gone = mine().await;
    assert!(gone.is_none_or(|other| other.image != renamed), "the number may be another's by now");

    disk.create_sparse(&image, MIB).await.unwrap();
    let device = kernel.loop_attach(&image, true).await.unwrap();
    let all = kernel.loops().await.unwrap();
    assert!(all.iter().any(|found| found.device == device && found.read_only));
    kernel.loop_detach(&device).await.unwrap();
}

/// A restarted process whose `/dev` lacks the node must not give the image a second device.
#[tokio::test]
async fn an_image_whose_device_node_is_gone_keeps_its_device() {
    let world = World::new();
    let device = world.device("image", 1).await;
    std::fs::remove_file(&device).unwrap();
    let restarted = world.restarted();
    let again = restarted.kernel.loop_attach(&world.path("image"), false).await.unwrap();
    assert_eq!(again, device);
    assert!(device.exists(), "its node is there again");
    drop(restarted);
    world.host.kernel.loop_detach(&device).await.unwrap();
}

#[tokio::test]
async fn queues_are_set_one_by_one() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let device = world.device("image", 64).await;
    let allowed = setting(&device, "discard_max_hw_bytes");
    assert!(allowed > 0);
    assert_eq!(setting(&device, "discard_max_bytes"), allowed, "discarding passes by itself");
    kernel.set_queue(&device, Queue { discard: None, read_ahead_kib: Some(96) }).await.unwrap();
    assert_eq!((setting(&device, "read_ahead_kb"), setting(&device, "discard_max_bytes")), (96, allowed));
    kernel.set_queue(&device, Queue { discard: Some(false), read_ahead_kib: None }).await.unwrap();
    assert_eq!((setting(&device, "read_ahead_kb"), setting(&device, "discard_max_bytes")), (96, 0));
    let path = device.to_str().unwrap();
    let (passed, said) = program("blkdiscard", &["-f", path]);
    assert!(!passed && said.contains("not supported"), "{said}");
    // A one-way street: this kernel turns it on again for the next image only.
    let again = kernel.set_queue(&device, Queue { discard: Some(true), read_ahead_kib: None }).await;
    assert_eq!(errno(&again.unwrap_err()), libc::EINVAL);
    kernel.set_queue(&device, Queue { discard: Some(false), read_ahead_kib: Some(0) }).await.unwrap();
    assert_eq!((setting(&device, "read_ahead_kb"), setting(&device, "discard_max_bytes")), (0, 0));
    kernel.set_queue(&device, Queue::default()).await.unwrap();
    assert_eq!((setting(&device, "read_ahead_kb"), setting(&device, "discard_max_bytes")), (0, 0));
    // Also by another name of the device, as a workload has it.
    let bound = world.path("bound");
    std::fs::write(&bound, "").unwrap();
    kernel.bind(&device, &bound, false).await.unwrap();
    kernel.set_queue(&bound, Queue { discard: None, read_ahead_kib: Some(32) }).await.unwrap();
    assert_eq!(setting(&device, "read_ahead_kb"), 32);
    kernel.unmount(&bound).await.unwrap();
    assert_eq!(
        errno(&kernel.set_queue(&world.path("image"), Queue::default()).await.unwrap_err()),
        libc::ENOTBLK
    );

    // The kernel would keep the setting for whatever image comes next; all of these find it on.
    kernel.loop_detach(&device).await.unwrap();
    let mut next = Vec::new();
    for name in ["image", "b", "c", "d"] {
        next.push(world.device(name, 64).await);
    }
    for device in next {
        assert_eq!(setting(&device, "discard_max_bytes"), allowed);
        kernel.set_queue(&device, Queue { discard: Some(true), read_ahead_kib: None }).await.unwrap();
        assert!(program("blkdiscard", &["-f", device.to_str().unwrap()]).0);
        kernel.loop_detach(&device).await.unwrap();
    }
}

#[tokio::test]
async fn space_that_is_discarded_inside_is_free_outside() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        let image = world.path(fs_type);
        let fill = || {
            let file = std::fs::File::create(target.join("file")).unwrap();
            std::io::Write::write_all(&mut &file, &vec![9; 24 << 20]).unwrap();
            file.sync_all().unwrap();
        };
        let trim = || {
            // Emptied, not removed: that is left to a thread of its own by some.
            std::fs::File::create(target.join("file")).unwrap().sync_all().unwrap();
            rustix::fs::syncfs(std::fs::File::open(&target).unwrap()).unwrap();
            program("fstrim", &[target.to_str().unwrap()])
        };
        fill();
        let full = disk.allocated(&image).await.unwrap();
        assert!(full >= 24 * MIB, "{fs_type}");
        let (trimmed, said) = trim();
        assert!(trimmed, "{fs_type}: {said}");
        let after = disk.allocated(&image).await.unwrap();
        assert!(after + 20 * MIB < full, "{fs_type}: {full} before, {after} after");

        kernel.set_queue(&device, Queue { discard: Some(false), read_ahead_kib: None }).await.unwrap();
        fill();
        let full = disk.allocated(&image).await.unwrap();
        let _ = trim();
        let after = disk.allocated(&image).await.unwrap();
        assert!(after + MIB > full, "{fs_type}: discarding is off: {full} before, {after} after");
        kernel.unmount(&target).await.unwrap();
        world.detach(&device).await;
    }
}
