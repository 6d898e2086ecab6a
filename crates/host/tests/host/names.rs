//! Names, labels and locks: what holds for the real disk must hold for the fake one.

use std::io::ErrorKind;
use std::path::Path;

use bowline_host::Disk;
use bowline_host::disk::Kind;
use bowline_host::fake;
use nix::libc;

use crate::world::{World, program};

#[tokio::test]
async fn real_names() {
    let world = World::new();
    let dir = std::fs::canonicalize(world.dir("names")).unwrap();
    suite(world.host.disk.as_ref(), &dir).await;
    other_processes_are_excluded(&world).await;
    labels_are_attributes_of_the_file(&world).await;
}

#[tokio::test(start_paused = true)]
async fn fake_names() {
    let (host, _fake) = fake::host(1);
    let dir = Path::new("/var/lib/names");
    host.disk.create_dir_all(dir, 0o755).await.unwrap();
    suite(host.disk.as_ref(), dir).await;
}

async fn suite(disk: &dyn Disk, dir: &Path) {
    canonical(disk, dir).await;
    long(disk, &dir.join("long")).await;
    labels(disk, dir).await;
    renaming(disk, dir).await;
    locks(disk, dir).await;
}

/// Every name that the filesystem takes can be written in one step.
async fn long(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir, 0o755).await.unwrap();
    for length in [242, 243, 253, 255] {
        let path = dir.join("n".repeat(length));
        disk.write_atomic(&path, b"text", 0o600).await.unwrap();
        assert_eq!(disk.read(&path).await.unwrap(), b"text", "{length}");
    }
    let refused = disk.write_atomic(&dir.join("n".repeat(256)), b"text", 0o600).await.unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENAMETOOLONG));
    assert_eq!(disk.unfinished(dir).await.unwrap(), Vec::<String>::new());
}

async fn canonical(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(&dir.join("real/sub"), 0o755).await.unwrap();
    disk.create_file(&dir.join("real/file")).await.unwrap();
    disk.symlink(Path::new("real"), &dir.join("link")).await.unwrap();
    disk.symlink(Path::new("nowhere"), &dir.join("dangling")).await.unwrap();
    disk.symlink(Path::new("loop"), &dir.join("loop")).await.unwrap();
    for (asked, expected) in [
        ("real/file", Ok("real/file")),
        ("link/file", Ok("real/file")),
        ("link/sub", Ok("real/sub")),
        ("link/../link/sub", Ok("real/sub")),
        ("link/new", Ok("real/new")),
        ("link/no/such", Err(libc::ENOENT)),
        ("real/file/new", Err(libc::ENOTDIR)),
        ("dangling", Err(libc::ENOENT)),
        ("loop", Err(libc::ELOOP)),
    ] {
        let found = disk.canonical(&dir.join(asked)).await.map_err(|e| e.raw_os_error().unwrap());
        assert_eq!(found, expected.map(|path| dir.join(path)), "{asked}");
    }
}

async fn labels(disk: &dyn Disk, dir: &Path) {
    let (file, moved, copy) = (dir.join("labelled"), dir.join("moved"), dir.join("copied"));
    disk.write_atomic(&file, b"content", 0o600).await.unwrap();
    assert_eq!(disk.label(&file, "test.id").await.unwrap(), None);
    disk.set_label(&file, "test.id", b"one").await.unwrap();
    disk.set_label(&file, "test.id", b"another").await.unwrap();
    disk.set_label(&file, "test.empty", b"").await.unwrap();
    assert_eq!(disk.label(&file, "test.id").await.unwrap().as_deref(), Some(b"another".as_slice()));
    assert_eq!(disk.label(&file, "test.empty").await.unwrap().as_deref(), Some(b"".as_slice()));
    disk.rename(&file, &moved).await.unwrap();
    assert_eq!(disk.label(&moved, "test.id").await.unwrap().as_deref(), Some(b"another".as_slice()));
    assert_eq!(disk.label(&file, "test.id").await.unwrap_err().kind(), ErrorKind::NotFound);
    disk.copy(&moved, &copy).await.unwrap();
    assert_eq!(disk.label(&copy, "test.id").await.unwrap(), None, "a copy is another file");
    disk.write_atomic(&moved, b"content", 0o600).await.unwrap();
    assert_eq!(disk.label(&moved, "test.id").await.unwrap(), None, "so is what replaces it");
    assert_eq!(disk.set_label(dir, "test.id", b"x").await.unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(
        disk.set_label(&dir.join("none"), "test.id", b"x").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

async fn renaming(disk: &dyn Disk, dir: &Path) {
    let (a, b, sub) = (dir.join("a"), dir.join("b"), dir.join("tree/sub"));
    disk.write_atomic(&a, b"a", 0o600).await.unwrap();
    disk.write_atomic(&b, b"b", 0o600).await.unwrap();
    disk.rename(&a, &b).await.unwrap();
    assert_eq!(disk.read(&b).await.unwrap(), b"a", "the target is replaced");
    assert_eq!(disk.kind(&a).await.unwrap(), None);
    assert_eq!(disk.rename(&a, &b).await.unwrap_err().kind(), ErrorKind::NotFound);
    disk.create_dir_all(&sub, 0o755).await.unwrap();
    disk.rename(&b, &sub.join("deep")).await.unwrap();
    disk.rename(&dir.join("tree"), &dir.join("wood")).await.unwrap();
    assert_eq!(disk.read(&dir.join("wood/sub/deep")).await.unwrap(), b"a");
    assert_eq!(disk.kind(&dir.join("tree")).await.unwrap(), None);
    let wood = dir.join("wood");
    let inside = disk.rename(&wood, &wood.join("sub/self")).await.unwrap_err();
    assert_eq!(inside.kind(), ErrorKind::InvalidInput);
    disk.create_dir_all(&dir.join("full/x"), 0o755).await.unwrap();
    let full = disk.rename(&wood, &dir.join("full")).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
    disk.create_file(&dir.join("plain")).await.unwrap();
    assert_eq!(disk.rename(&dir.join("plain"), &wood).await.unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(disk.rename(&wood, &dir.join("plain")).await.unwrap_err().kind(), ErrorKind::NotADirectory);
}

async fn locks(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("lock");
    let held = disk.lock(&path).await.unwrap();
    assert_eq!(disk.kind(&path).await.unwrap(), Some(Kind::File));
    assert_eq!(disk.lock(&path).await.unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
    let held = disk.lock(&path).await.unwrap();
    // A lock on a removed file keeps nobody from the next one of that name, and is no lock on it.
    disk.remove_file(&path).await.unwrap();
    let next = disk.lock(&path).await.unwrap();
    drop(held);
    assert_eq!(disk.lock(&path).await.unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(next);
    disk.lock(&path).await.unwrap();
    assert_eq!(disk.lock(&dir.join("no/such")).await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn other_processes_are_excluded(world: &World) {
    let path = world.path("shared lock");
    let held = world.host.disk.lock(&path).await.unwrap();
    let free = || program("flock", &["-n", path.to_str().unwrap(), "true"]).0;
    assert!(!free());
    assert_eq!(world.restarted().disk.lock(&path).await.unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
    assert!(free());
}

async fn labels_are_attributes_of_the_file(world: &World) {
    let path = world.path("image");
    world.host.disk.create_sparse(&path, 1 << 20).await.unwrap();
    world.host.disk.set_label(&path, "bowline.test", b"value").await.unwrap();
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&path, "trusted.bowline.test", &mut value).unwrap();
    assert_eq!(&value[..length], b"value");
}
