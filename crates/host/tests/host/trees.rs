//! Directories that go with everything in them, and nothing else.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bowline_host::disk::{Kind, Owner};
use bowline_host::{Host, fake};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use crate::world::World;

/// Deeper than a path can name (4096 bytes) and than a process has open files.
const DEPTH: usize = 2_500;

#[tokio::test]
async fn real_trees() {
    let world = World::new();
    suite(&world.host, &world.dir("trees")).await;
}

#[tokio::test(start_paused = true)]
async fn fake_trees() {
    let (host, _fake) = fake::host(1);
    let dir = Path::new("/var/lib/trees");
    host.disk.create_dir_all(dir, 0o755).await.unwrap();
    suite(&host, dir).await;
}

async fn suite(host: &Host, dir: &Path) {
    let disk = &host.disk;
    let (tree, outside) = (dir.join("tree"), dir.join("outside"));
    let fill = async || {
        disk.create_dir_all(&tree.join("a/b/c"), 0o755).await.unwrap();
        disk.create_dir_all(&tree.join("empty"), 0o755).await.unwrap();
        disk.write_atomic(&tree.join("a/b/file"), b"x", 0o600).await.unwrap();
    };
    disk.create_dir_all(&outside, 0o755).await.unwrap();
    disk.write_atomic(&outside.join("kept"), b"kept", 0o600).await.unwrap();
    fill().await;
    disk.symlink(&outside, &tree.join("a/absolute")).await.unwrap();
    disk.symlink(Path::new("../outside/kept"), &tree.join("relative")).await.unwrap();
    disk.remove_tree(&tree).await.unwrap();
    disk.remove_tree(&tree).await.unwrap();
    disk.remove_tree(&dir.join("no/such")).await.unwrap();
    assert_eq!(disk.list(dir).await.unwrap(), ["outside"]);
    assert_eq!(disk.read(&outside.join("kept")).await.unwrap(), b"kept", "links are not followed");

    disk.symlink(&outside, &tree).await.unwrap();
    assert_eq!(disk.remove_tree(&tree).await.unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(disk.kind(&tree).await.unwrap(), Some(Kind::Symlink));
    disk.remove_file(&tree).await.unwrap();

    fill().await;
    for target in [tree.clone(), tree.join("a/b")] {
        host.kernel.bind(&outside, &target, false).await.unwrap();
        assert_eq!(disk.remove_tree(&tree).await.unwrap_err().kind(), ErrorKind::ResourceBusy);
        host.kernel.unmount(&target).await.unwrap();
        assert_eq!(disk.read(&tree.join("a/b/file")).await.unwrap(), b"x", "nothing was removed");
        assert_eq!(disk.list(&tree).await.unwrap(), ["a", "empty"]);
    }
    disk.remove_tree(&tree).await.unwrap();
    assert_eq!(disk.list(&outside).await.unwrap(), ["kept"]);
}

#[tokio::test]
async fn a_directory_has_the_owner_it_was_created_with() {
    let world = World::new();
    let (dir, link) = (world.path("owned"), world.path("link"));
    for owner in [
        Owner { uid: Some(1000), gid: Some(2000), mode: 0o2750 },
        Owner { uid: None, gid: Some(3000), mode: 0o777 },
    ] {
        world.host.disk.create_owned_dir(&dir, owner).await.unwrap();
        let found = std::fs::metadata(&dir).unwrap();
        assert_eq!((found.uid(), Some(found.gid())), (1000, owner.gid));
        assert_eq!(found.mode() & 0o7777, owner.mode, "whatever the umask");
    }
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let owner = Owner { uid: Some(0), gid: Some(0), mode: 0o700 };
    world.host.disk.create_owned_dir(&link, owner).await.unwrap_err();
    assert_eq!(std::fs::metadata(&dir).unwrap().uid(), 1000, "links are not followed");
    let missing = world.host.disk.create_owned_dir(&world.path("no/such"), owner).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn no_tree_is_too_deep_or_too_wide() {
    let world = World::new();
    let top = world.dir("top");
    let mut dir = openat(CWD, &top, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        mkdirat(&dir, "d", Mode::RWXU).unwrap();
        std::fs::write(format!("/proc/self/fd/{}/file", std::os::fd::AsRawFd::as_raw_fd(&dir)), "x").unwrap();
        dir = openat(&dir, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    for number in 0..500 {
        let dir = top.join(format!("wide/{number}"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "x").unwrap();
    }
    // Names a removal would choose itself, and one that is no text.
    std::fs::create_dir_all(top.join(".bowline-gone-1/full")).unwrap();
    std::fs::create_dir_all(top.join(".bowline-gone-2/full")).unwrap();
    std::fs::write(top.join(OsStr::from_bytes(b"\xff\xfe")), "x").unwrap();
    world.host.disk.remove_tree(&top).await.unwrap();
    assert!(!top.exists());
}

#[tokio::test]
async fn a_mounted_filesystem_is_named_and_kept() {
    let world = World::new();
    let (_, mounted) = world.mounted("image", "ext4").await;
    std::fs::write(mounted.join("kept"), "x").unwrap();
    let refused = world.host.disk.remove_tree(&mounted).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceBusy, "{refused}");
    assert!(refused.to_string().contains("image.mounted"), "{refused}");
    assert!(mounted.join("kept").exists());
}
