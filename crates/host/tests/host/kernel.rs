//! Loop devices and mounts.

use std::collections::BTreeSet;
use std::io::Write;

use bowline_host::kernel::KernelError;
use nix::libc;

use crate::world::{World, errno, program, until_free};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_loop_devices_in_parallel() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let mut images = Vec::new();
    for i in 0..12 {
        let image = world.path(&format!("image {i}"));
        world.host.disk.create_sparse(&image, 1 << 20).await.unwrap();
        images.push(image);
    }
    let attach = |image: &std::path::PathBuf| {
        let (kernel, image) = (kernel.clone(), image.clone());
        tokio::spawn(async move { kernel.loop_attach(&image, false).await })
    };
    // Each twice at once: the second adopts what the first attached.
    let tasks: Vec<_> = images.iter().chain(&images).map(attach).collect();
    let mut devices = Vec::new();
    for task in tasks {
        devices.push(task.await.unwrap().unwrap());
    }
    assert_eq!(devices[..12], devices[12..]);
    assert_eq!(devices.iter().collect::<BTreeSet<_>>().len(), 12);
    for (image, device) in images.iter().zip(&devices) {
        assert_eq!(kernel.loop_of(image).await.unwrap().as_ref(), Some(device));
        assert_eq!(world.restarted().kernel.loop_attach(image, false).await.unwrap(), *device);
    }
    for (image, device) in images.iter().zip(&devices) {
        kernel.loop_detach(device).await.unwrap();
        kernel.loop_detach(device).await.unwrap();
        assert_eq!(kernel.loop_of(image).await.unwrap(), None);
    }
}

/// A device that was let go is the first that the kernel gives to the next image. Goal: whoever let it go does not
/// take it from that image. Method: somebody holds the device while it is detached, as a process being forked does,
/// so that the detaching one has to look again; meanwhile the next image gets the device.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detaching_takes_no_device_from_the_next_image() {
    let world = World::new();
    let next = world.path("next");
    world.host.disk.create_sparse(&next, 1 << 20).await.unwrap();
    let mut same = 0;
    for _ in 0..20 {
        let device = world.device("first", 1).await;
        let held = std::fs::File::open(&device).unwrap();
        let detaching = tokio::spawn({
            let (kernel, device) = (world.host.kernel.clone(), device.clone());
            async move { kernel.loop_detach(&device).await }
        });
        let name = device.file_name().unwrap();
        let autoclear = std::path::Path::new("/sys/block").join(name).join("loop/autoclear");
        while !std::fs::read(&autoclear).is_ok_and(|value| value.starts_with(b"1")) {
            tokio::task::yield_now().await;
        }
        drop(held);
        let given = world.host.kernel.loop_attach(&next, false).await.unwrap();
        same += u32::from(given == device);
        detaching.await.unwrap().unwrap();
        assert_eq!(world.host.kernel.loop_of(&next).await.unwrap(), Some(given.clone()));
        world.host.kernel.loop_detach(&given).await.unwrap();
    }
    assert!(same > 0, "the kernel gave the next image another device each time");
}

#[tokio::test]
async fn a_read_only_device_stays_read_only() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let image = world.path("image");
    world.host.disk.create_sparse(&image, 1 << 20).await.unwrap();
    let device = kernel.loop_attach(&image, true).await.unwrap();
    assert!(
        std::fs::OpenOptions::new().write(true).open(&device).and_then(|mut f| f.write_all(b"x")).is_err()
    );
    assert_eq!(kernel.loop_attach(&image, true).await.unwrap(), device);
    assert!(kernel.loop_attach(&image, false).await.unwrap_err().to_string().contains("read-only"));
    kernel.loop_detach(&device).await.unwrap();
}

#[tokio::test]
async fn a_new_image_at_an_old_path_is_another_image() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let image = world.path("image");
    let first = world.device("image", 1).await;
    std::fs::remove_file(&image).unwrap();
    assert_eq!(
        kernel.loop_of(&image).await.unwrap().as_ref(),
        Some(&first),
        "a deleted image is still found"
    );
    let second = world.device("image", 1).await;
    assert_ne!(first, second);
    assert_eq!(kernel.loop_of(&image).await.unwrap().as_ref(), Some(&second));
    kernel.loop_detach(&first).await.unwrap();
    kernel.loop_detach(&second).await.unwrap();
}

/// The kernel would put off a detach until the last user closes the device; a caller must hear of it, and a
/// device that is wanted again must not vanish later.
#[tokio::test]
async fn a_device_in_use_is_not_detached() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let (device, target) = world.mounted("image", "ext4").await;
    assert_eq!(errno(&kernel.loop_detach(&device).await.unwrap_err()), libc::EBUSY);
    std::fs::write(target.join("file"), "still here").unwrap();
    kernel.unmount(&target).await.unwrap();

    let open = std::fs::File::open(&device).unwrap();
    assert_eq!(errno(&kernel.loop_detach(&device).await.unwrap_err()), libc::EBUSY);
    assert_eq!(kernel.loop_attach(&world.path("image"), false).await.unwrap(), device);
    drop(open);
    assert_eq!(kernel.loop_of(&world.path("image")).await.unwrap().as_ref(), Some(&device));
    kernel.mount(&device, &target, "ext4", &[]).await.unwrap();
    assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "still here");
    kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
}

/// Goal: a volume's hold on its device survives what is done about another volume that had this number before.
#[tokio::test]
async fn releasing_another_image_keeps_the_hold() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let device = world.device("image", 1).await;
    let other = world.path("other");
    world.host.disk.create_sparse(&other, 1 << 20).await.unwrap();
    kernel.loop_release(&device, &other).await.unwrap();
    // Only noted by the kernel as long as the device is held.
    assert!(program("losetup", &["-d", device.to_str().unwrap()]).0);
    assert_eq!(kernel.loop_of(&world.path("image")).await.unwrap().as_ref(), Some(&device));
    assert_eq!(kernel.loop_hold(&world.path("image")).await.unwrap().as_ref(), Some(&device));
    kernel.loop_release(&device, &world.path("image")).await.unwrap();
    assert_eq!(kernel.loop_of(&world.path("image")).await.unwrap(), None);
}

/// Goal: a device that cannot be detached says what uses it.
#[tokio::test]
async fn a_busy_device_names_the_process_that_has_it_open() {
    let world = World::new();
    let device = world.device("image", 1).await;
    let mut holder = std::process::Command::new("sleep")
        .arg("1000")
        .stdin(std::fs::File::open(&device).unwrap())
        .spawn()
        .unwrap();
    let refused = world.host.kernel.loop_detach(&device).await.unwrap_err().to_string();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let expected =
        format!("process {} (sleep) has the device open; `lsof {}`", holder.id(), device.display());
    assert!(refused.contains(&expected), "{refused}");
    world.host.kernel.loop_attach(&world.path("image"), false).await.unwrap();
    world.host.kernel.loop_detach(&device).await.unwrap();
}

/// Neither `findmnt` nor `lsof` shows this one.
#[tokio::test]
async fn a_busy_device_names_the_process_that_has_it_mounted_in_its_own_namespace() {
    let world = World::new();
    let (device, target) = world.mounted("image", "ext4").await;
    // Its copies of other tests' mounts would keep their devices busy.
    let script = r#"
        findmnt --raw --noheadings --output SOURCE,TARGET | tac | while read -r source target; do
            case $source in "$0" | "$0["*) ;; /dev/loop*) umount "$target" ;; esac
        done
        echo ready; exec sleep 1000"#;
    let mut holder = std::process::Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(&device)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut ready).unwrap();
    world.host.kernel.unmount(&target).await.unwrap();
    let refused = world.host.kernel.loop_detach(&device).await.unwrap_err();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let expected = format!("process {} (sleep) has it mounted in another mount namespace", holder.id());
    assert!(refused.to_string().contains(&expected), "{refused}");
    let own = format!("process {} ", std::process::id());
    assert!(!refused.to_string().contains(&own), "{refused}");
    until_free(&device).await;
    world.host.kernel.loop_detach(&device).await.unwrap();
}

#[tokio::test]
async fn filesystems_mount_and_bind() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        std::fs::write(target.join("file"), fs_type).unwrap();
        let mount = kernel.mount_at(&target).await.unwrap().unwrap();
        assert_eq!((mount.fs_type.as_str(), mount.source.as_str()), (fs_type, device.to_str().unwrap()));
        assert!(!mount.read_only());
        assert_eq!(errno(&kernel.mount(&device, &target, fs_type, &[]).await.unwrap_err()), libc::EBUSY);

        let bound = world.dir(&format!("{fs_type}.bound"));
        kernel.bind(&target, &bound, true).await.unwrap();
        assert!(kernel.mount_at(&bound).await.unwrap().unwrap().read_only());
        let refused = std::fs::write(bound.join("file"), "no").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
        assert_eq!(std::fs::read_to_string(bound.join("file")).unwrap(), fs_type);
        std::fs::write(target.join("file"), "the source stays writable").unwrap();

        for path in [&bound, &target, &target] {
            kernel.unmount(path).await.unwrap();
        }
        assert!(kernel.mount_at(&target).await.unwrap().is_none());
        until_free(&device).await;
        kernel.check_filesystem(&device, fs_type).await.unwrap();
        kernel.loop_detach(&device).await.unwrap();
    }
}

#[tokio::test]
async fn a_read_only_bind_keeps_the_options_of_its_source() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let device = world.device("image", 64).await;
    kernel.make_filesystem(&device, "ext4", &["-L".into(), "mine".into()]).await.unwrap();
    let (source, target) = (world.dir("source"), world.dir("target"));
    let options = ["nodev", "nosuid,noexec", "noatime", "data=ordered", "defaults"].map(String::from);
    kernel.mount(&device, &source, "ext4", &options).await.unwrap();
    kernel.bind(&source, &target, true).await.unwrap();
    let mount = kernel.mount_at(&target).await.unwrap().unwrap();
    for option in ["ro", "nodev", "nosuid", "noexec", "noatime"] {
        assert!(mount.options.iter().any(|o| o == option), "{option} in {:?}", mount.options);
    }
    kernel.unmount(&target).await.unwrap();
    kernel.unmount(&source).await.unwrap();
    let unknown = kernel.mount(&device, &source, "ext4", &["nosuchoption".into()]).await.unwrap_err();
    assert_eq!(errno(&unknown), libc::EINVAL);
    world.detach(&device).await;
}

#[tokio::test]
async fn devices_files_and_stacks_are_bound_and_unmounted_one_by_one() {
    let world = World::new();
    let (kernel, disk) = (&world.host.kernel, &world.host.disk);
    let device = world.device("image", 1).await;
    let target = world.path("a name with spaces");
    disk.create_file(&target).await.unwrap();
    kernel.bind(&device, &target, false).await.unwrap();
    kernel.bind(&device, &target, false).await.unwrap();
    assert_eq!(disk.kind(&target).await.unwrap(), Some(bowline_host::disk::Kind::BlockDevice));
    let at_target = || async { kernel.mounts().await.unwrap().iter().filter(|m| m.target == target).count() };
    assert_eq!(at_target().await, 2);
    let listed = kernel.mounts().await.unwrap().into_iter().rfind(|mount| mount.target == target);
    assert_eq!(kernel.mount_at(&target).await.unwrap(), listed, "asked and listed");
    kernel.unmount(&target).await.unwrap();
    assert_eq!(at_target().await, 1);
    assert_eq!(disk.remove_file(&target).await.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    kernel.unmount(&target).await.unwrap();
    kernel.unmount(&target).await.unwrap();
    kernel.unmount(&world.path("nothing")).await.unwrap();
    disk.remove_file(&target).await.unwrap();
    assert_eq!(errno(&kernel.bind(&device, &target, false).await.unwrap_err()), libc::ENOENT);
    world.detach(&device).await;
}

/// Both machines: so many bytes, and gone with the mount.
#[tokio::test]
async fn a_filesystem_in_memory_has_its_size_and_goes_with_its_mount() {
    let world = World::new();
    let (fake, _) = bowline_host::fake::host(1);
    for host in [&world.host, &fake] {
        let target = world.path("memory");
        host.disk.create_dir_all(&target, 0o777).await.unwrap();
        let file = target.join("file");
        for size in [None, Some(1 << 20)] {
            host.kernel.mount_memory(&target, size).await.unwrap();
            let mount = host.kernel.mount_at(&target).await.unwrap().unwrap();
            assert_eq!(mount.fs_type, "tmpfs");
            host.disk.write_atomic(&file, b"here", 0o600).await.unwrap();
            assert_eq!(host.disk.read(&file).await.unwrap(), b"here");
            host.kernel.unmount(&target).await.unwrap();
            assert_eq!(host.disk.kind(&file).await.unwrap(), None, "gone with its mount");
        }
        let missing = host.kernel.mount_memory(&world.path("nothing"), None).await.unwrap_err();
        assert_eq!(errno(&missing), libc::ENOENT);
    }
    let target = world.path("memory");
    world.host.kernel.mount_memory(&target, Some(1 << 20)).await.unwrap();
    assert_eq!(world.host.disk.space(&target).await.unwrap().total, 1 << 20);
    // Files without a byte take the kernel's memory, too.
    let full = (0..2_000).find_map(|number| std::fs::File::create(target.join(number.to_string())).err());
    assert_eq!(full.and_then(|error| error.raw_os_error()), Some(libc::ENOSPC));
    world.host.kernel.unmount(&target).await.unwrap();
}

/// Doubles an image under its filesystem; returns by how much the filesystem thinks it grew.
async fn grow(world: &World, name: &str, fs_type: &str, mounted: bool) -> Result<f64, KernelError> {
    let (device, target) = world.mounted(name, fs_type).await;
    let (kernel, disk) = (&world.host.kernel, &world.host.disk);
    let before = disk.space(&target).await.unwrap().total;
    let length = disk.length(&world.path(name)).await.unwrap() * 2;
    disk.create_sparse(&world.path(name), length).await.unwrap();
    kernel.loop_refresh(&device).await.unwrap();
    let grown = if mounted {
        kernel.grow_filesystem(&device, &target, fs_type).await
    } else {
        world.unmount(&device, &target).await;
        let grown = kernel.grow_filesystem(&device, &target, fs_type).await;
        kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
        grown
    };
    let after = disk.space(&target).await.unwrap().total;
    kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
    grown.map(|()| after as f64 / before as f64)
}

#[tokio::test]
async fn filesystems_grow() {
    let world = World::new();
    for fs_type in ["xfs", "btrfs"] {
        assert!(grow(&world, fs_type, fs_type, true).await.unwrap() > 1.5);
        let offline = grow(&world, &format!("{fs_type} offline"), fs_type, false).await.unwrap_err();
        assert!(offline.to_string().contains("not mounted"), "{offline}");
    }
    assert!(grow(&world, "ext4 offline", "ext4", false).await.unwrap() > 1.5);
    let capabilities = rustix::thread::capabilities(None).unwrap().effective;
    let online = grow(&world, "ext4", "ext4", true).await;
    if capabilities.contains(rustix::thread::CapabilitySet::SYS_RESOURCE) {
        assert!(online.unwrap() > 1.5);
    } else {
        assert_eq!(errno(&online.unwrap_err()), libc::EPERM);
    }
}
