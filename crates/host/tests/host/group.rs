//! A directory tree is given to a group, and nothing outside of it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use bowline_host::disk::{GroupChange, GroupGrant, Walk};
use bowline_host::fake;

use crate::world::{World, program};

const GID: u32 = 4711;

fn group_and_mode(path: &Path) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.gid(), metadata.mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_tree_is_given_to_a_group() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    let (device, top) = world.mounted("image", "ext4").await;
    let (inner_device, _) = (world.device("inner", 8).await, ());
    kernel.make_filesystem(&inner_device, "ext4", &[]).await.unwrap();

    let outside = world.dir("outside");
    fs::write(outside.join("secret"), "not yours").unwrap();
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    fs::create_dir_all(top.join("other mount")).unwrap();
    kernel.mount(&inner_device, &top.join("other mount"), "ext4", &[]).await.unwrap();
    fs::write(top.join("other mount/file"), "").unwrap();
    for (name, mode) in [("a/private", 0o600), ("a/b/readable", 0o444), ("a/b/c/setuid", 0o4755)] {
        fs::write(top.join(name), "").unwrap();
        set_mode(&top.join(name), mode);
    }
    for (name, mode) in [("a", 0o700), ("a/b", 0o755), ("a/b/c", 0o500)] {
        set_mode(&top.join(name), mode);
    }
    symlink(&outside, top.join("a/link to a directory")).unwrap();
    symlink(outside.join("secret"), top.join("a/link to a file")).unwrap();
    symlink("/nowhere", top.join("a/dangling")).unwrap();
    assert!(program("mkfifo", &["-m", "600", top.join("a/fifo").to_str().unwrap()]).0);
    let untouched =
        [&outside, &outside.join("secret"), &top.join("other mount/file")].map(|p| group_and_mode(p));

    disk.set_group(&top, GID).await.unwrap();
    for (name, mode) in [
        ("", 0o2775),
        ("a", 0o2770),
        ("a/b", 0o2775),
        ("a/b/c", 0o2550),
        ("a/private", 0o660),
        ("a/b/readable", 0o444),
        ("a/b/c/setuid", 0o4775),
        ("a/fifo", 0o660),
        ("a/link to a file", 0o777),
        ("a/dangling", 0o777),
    ] {
        assert_eq!(group_and_mode(&top.join(name)), (GID, mode), "{name}");
    }
    let now = [&outside, &outside.join("secret"), &top.join("other mount/file")].map(|p| group_and_mode(p));
    assert_eq!(now, untouched, "neither behind a link nor on another mount");

    // What is made later belongs to the group by itself; and a tree that is so is not walked again.
    fs::write(top.join("a/b/later"), "").unwrap();
    assert_eq!(group_and_mode(&top.join("a/b/later")).0, GID);
    std::os::unix::fs::chown(top.join("a/private"), None, Some(0)).unwrap();
    disk.set_group(&top, GID).await.unwrap();
    assert_eq!(group_and_mode(&top.join("a/private")).0, 0);
    disk.set_group(&top, GID + 1).await.unwrap();
    assert_eq!(group_and_mode(&top.join("a/private")).0, GID + 1);

    kernel.unmount(&top.join("other mount")).await.unwrap();
    kernel.unmount(&top).await.unwrap();
    world.detach(&inner_device).await;
    world.detach(&device).await;
}

/// An interrupted run leaves the top as it was, so that the next one begins again.
#[tokio::test]
async fn the_top_is_changed_last() {
    let world = World::new();
    let top = world.dir("top");
    fs::write(top.join("file"), "").unwrap();
    fs::write(top.join("stubborn"), "").unwrap();
    assert!(program("chattr", &["+i", top.join("stubborn").to_str().unwrap()]).0);
    let before = group_and_mode(&top);
    let error = world.host.disk.set_group(&top, GID).await.unwrap_err().to_string();
    assert!(error.contains("stubborn") && error.contains("4711"), "{error}");
    assert_eq!(group_and_mode(&top), before);
    assert!(program("chattr", &["-i", top.join("stubborn").to_str().unwrap()]).0);
    world.host.disk.set_group(&top, GID).await.unwrap();
    assert_eq!(group_and_mode(&top.join("stubborn")).0, GID);
    assert_eq!(group_and_mode(&top).0, GID);
    let link = world.path("link");
    symlink(&top, &link).unwrap();
    assert!(world.host.disk.set_group(&link, 1).await.is_err(), "not even the first step is a link");
    assert!(world.host.disk.set_group(&top.join("file"), 1).await.is_err());
    assert!(world.host.disk.set_group(&world.path("none"), 1).await.is_err());
}

/// Deeper than a process may have files open, and than a path may have bytes: a pod can make such a tree in its volume.
#[tokio::test]
async fn depth_is_no_limit() {
    let world = World::new();
    let top = world.dir("top");
    let (name, depth) = ("deeper", 1_500);
    let mut here = fs::File::open(&top).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&here, name, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, name, flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    world.host.disk.set_group(&top, GID).await.unwrap();
    assert_eq!(here.metadata().unwrap().gid(), GID);
    let grant = GroupGrant { gid: GID + 1, change: GroupChange::Always, read_only: false };
    let walk = Walk::default();
    world.host.disk.give_to_group(&top, grant, &walk).await.unwrap();
    assert_eq!(here.metadata().unwrap().gid(), GID + 1);
    assert_eq!(walk.changed(), depth + 1);
    world.host.disk.remove_tree(&top).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_fake_disk_knows_groups() {
    let (host, fake) = fake::host(1);
    let top = Path::new("/var/lib/tree");
    host.disk.create_dir_all(&top.join("sub"), 0o755).await.unwrap();
    host.disk.create_file(&top.join("sub/file")).await.unwrap();
    assert_eq!(fake.group(top), None);
    host.disk.set_group(top, GID).await.unwrap();
    for path in ["", "sub", "sub/file"] {
        assert_eq!(fake.group(&top.join(path)), Some(GID), "{path}");
    }
    host.disk.create_file(&top.join("sub/later")).await.unwrap();
    assert_eq!(fake.group(&top.join("sub/later")), Some(GID));
    assert_eq!(fake.group(Path::new("/var/lib")), None);
    host.disk.rename(&top.join("sub"), Path::new("/var/lib/moved")).await.unwrap();
    assert_eq!(fake.group(Path::new("/var/lib/moved/file")), Some(GID));
    assert!(host.disk.set_group(&top.join("none"), 1).await.is_err());
}

/// What the kubelet does for a pod's `fsGroup`, with upstream's modes.
#[tokio::test]
async fn a_volume_is_granted_to_a_group_as_upstream_does() {
    let world = World::new();
    let (device, top) = world.mounted("granted", "ext4").await;
    let inner = world.device("other", 8).await;
    world.host.kernel.make_filesystem(&inner, "ext4", &[]).await.unwrap();
    let outside = world.dir("elsewhere");
    fs::write(outside.join("secret"), "").unwrap();
    fs::create_dir_all(top.join("a/closed")).unwrap();
    fs::create_dir_all(top.join("mounted")).unwrap();
    world.host.kernel.mount(&inner, &top.join("mounted"), "ext4", &[]).await.unwrap();
    fs::write(top.join("mounted/file"), "").unwrap();
    fs::write(top.join("a/own"), "").unwrap();
    set_mode(&top.join("a/own"), 0o400);
    set_mode(&top.join("a/closed"), 0o500);
    symlink(outside.join("secret"), top.join("a/link")).unwrap();
    let untouched = [outside.join("secret"), top.join("mounted/file")].map(|path| group_and_mode(&path));

    let grant = |change, read_only| GroupGrant { gid: GID, change, read_only };
    let give = async |change, read_only| {
        let walk = Walk::default();
        world.host.disk.give_to_group(&top, grant(change, read_only), &walk).await.unwrap();
        walk.changed()
    };
    assert!(give(GroupChange::OnRootMismatch, true).await > 3);
    let table = [("a/own", 0o440), ("a/closed", 0o2550), ("a/link", 0o777)];
    for (name, mode) in table {
        assert_eq!(group_and_mode(&top.join(name)), (GID, mode), "{name}");
    }
    assert_eq!(give(GroupChange::OnRootMismatch, true).await, 0, "the top is right already");
    assert!(give(GroupChange::OnRootMismatch, false).await > 3, "the top lacks permissions");
    for (name, mode) in [("a/own", 0o660), ("a/closed", 0o2770)] {
        assert_eq!(group_and_mode(&top.join(name)), (GID, mode), "{name}");
    }
    std::os::unix::fs::chown(top.join("a/own"), None, Some(0)).unwrap();
    assert_eq!(give(GroupChange::OnRootMismatch, false).await, 0);
    assert_eq!(group_and_mode(&top.join("a/own")).0, 0);
    assert!(give(GroupChange::Always, false).await > 3);
    assert_eq!(group_and_mode(&top.join("a/own")).0, GID);

    // One file that cannot be changed does not keep the others, as upstream has it.
    assert!(program("chattr", &["+i", top.join("a/own").to_str().unwrap()]).0);
    let other = GroupGrant { gid: GID + 1, ..grant(GroupChange::Always, false) };
    world.host.disk.give_to_group(&top, other, &Walk::default()).await.unwrap();
    assert!(program("chattr", &["-i", top.join("a/own").to_str().unwrap()]).0);
    assert_eq!(group_and_mode(&top.join("a/closed")).0, GID + 1);

    // Neither does the top, which is then walked again the next time.
    assert!(program("chattr", &["+i", top.to_str().unwrap()]).0);
    let third = GroupGrant { gid: GID + 2, ..other };
    let given = world.host.disk.give_to_group(&top, third, &Walk::default()).await;
    assert!(program("chattr", &["-i", top.to_str().unwrap()]).0);
    given.unwrap();
    assert_eq!(group_and_mode(&top.join("a/closed")).0, GID + 2);
    assert_eq!(group_and_mode(&top).0, GID + 1);

    let cancelled = Walk::default();
    cancelled.cancel();
    let again = grant(GroupChange::Always, false);
    let error = world.host.disk.give_to_group(&top, again, &cancelled).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
    assert_eq!(group_and_mode(&top).0, GID + 1, "the top is changed last");
    let now = [outside.join("secret"), top.join("mounted/file")].map(|path| group_and_mode(&path));
    assert_eq!(now, untouched, "neither behind a link nor on another mount");
    world.host.kernel.unmount(&top.join("mounted")).await.unwrap();
    world.host.kernel.unmount(&top).await.unwrap();
    world.detach(&inner).await;
    world.detach(&device).await;
}
