//! One suite for both disks: what holds for the real one must hold for the fake one.

use std::io::ErrorKind;
use std::path::Path;

use bowline_host::Disk;
use bowline_host::disk::Kind;
use bowline_host::fake;

use crate::world::World;

/// Goal: a lock file that cannot be made is told apart from a directory that is missing.
#[tokio::test]
async fn locks_on_a_read_only_filesystem() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    let (dir, read_only) = (world.dir("dir"), world.dir("read-only"));
    drop(disk.lock(&dir.join("there")).await.unwrap());
    kernel.bind(&dir, &read_only, true).await.unwrap();
    drop(disk.lock(&read_only.join("there")).await.unwrap());
    let refused = disk.lock(&read_only.join("missing")).await.err().unwrap();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{refused}");
    kernel.unmount(&read_only).await.unwrap();
}

#[tokio::test]
async fn real_disk() {
    let world = World::new();
    suite(world.host.disk.as_ref(), &world.dir("disk")).await;
    durable_names(&world).await;
}

#[tokio::test(start_paused = true)]
async fn fake_disk() {
    let (host, _fake) = fake::host(1);
    let dir = Path::new("/var/lib/disk");
    host.disk.create_dir_all(dir, 0o755).await.unwrap();
    suite(host.disk.as_ref(), dir).await;
}

async fn suite(disk: &dyn Disk, dir: &Path) {
    files(disk, &dir.join("files")).await;
    directories(disk, &dir.join("directories")).await;
    sparse(disk, &dir.join("sparse")).await;
    links(disk, &dir.join("links")).await;
}

async fn files(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir, 0o755).await.unwrap();
    let path = dir.join("a");
    assert_eq!(disk.kind(&path).await.unwrap(), None);
    assert_eq!(disk.read(&path).await.unwrap_err().kind(), ErrorKind::NotFound);
    disk.write_atomic(&path, b"one", 0o600).await.unwrap();
    disk.write_atomic(&path, b"two", 0o600).await.unwrap();
    assert_eq!(disk.read(&path).await.unwrap(), b"two");
    assert_eq!(disk.length(&path).await.unwrap(), 3);
    assert_eq!(disk.kind(&path).await.unwrap(), Some(Kind::File));
    disk.create_file(&path).await.unwrap();
    assert_eq!(disk.read(&path).await.unwrap(), b"two", "an existing file is left as it is");
    disk.create_file(&dir.join("empty")).await.unwrap();
    assert_eq!(disk.list(dir).await.unwrap(), ["a", "empty"]);
    let missing = disk.write_atomic(&dir.join("no/such"), b"", 0o600).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(disk.read(dir).await.unwrap_err().kind(), ErrorKind::IsADirectory);
    disk.remove_file(&path).await.unwrap();
    disk.remove_file(&path).await.unwrap();
    disk.remove_file(&dir.join("no/such")).await.unwrap();
    assert_eq!(disk.kind(&path).await.unwrap(), None);
    assert!(disk.remove_file(dir).await.is_err(), "a directory is not a file");
}

async fn directories(disk: &dyn Disk, dir: &Path) {
    let deep = dir.join("x/y/z");
    assert!(disk.list(dir).await.unwrap().is_empty(), "a missing directory is empty");
    disk.create_dir_all(&deep, 0o750).await.unwrap();
    disk.create_dir_all(&deep, 0o750).await.unwrap();
    assert_eq!(disk.kind(&deep).await.unwrap(), Some(Kind::Dir));
    let full = disk.remove_dir(&dir.join("x/y")).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
    disk.remove_dir(&deep).await.unwrap();
    disk.remove_dir(&deep).await.unwrap();
    disk.create_file(&dir.join("file")).await.unwrap();
    assert_eq!(disk.remove_dir(&dir.join("file")).await.unwrap_err().kind(), ErrorKind::NotADirectory);
    assert!(disk.create_dir_all(&dir.join("file"), 0o755).await.is_err());
    assert!(disk.create_dir_all(&dir.join("file/below"), 0o755).await.is_err());
    assert_eq!(disk.list(dir).await.unwrap(), ["file", "x"]);
    let space = disk.space(dir).await.unwrap();
    assert!(space.total >= space.available && space.available > 0);
}

async fn sparse(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir, 0o755).await.unwrap();
    let (image, copy) = (dir.join("image"), dir.join("copy"));
    disk.create_sparse(&image, 1 << 30).await.unwrap();
    assert_eq!(disk.length(&image).await.unwrap(), 1 << 30);
    disk.create_sparse(&image, 1 << 20).await.unwrap();
    assert_eq!(disk.length(&image).await.unwrap(), 1 << 30, "never shrinks");
    disk.create_sparse(&image, 2 << 30).await.unwrap();
    assert_eq!(disk.length(&image).await.unwrap(), 2 << 30);
    disk.copy(&image, &copy).await.unwrap();
    assert_eq!(disk.length(&copy).await.unwrap(), 2 << 30);
    disk.write_atomic(&image, b"short", 0o600).await.unwrap();
    disk.copy(&image, &copy).await.unwrap();
    assert_eq!(disk.read(&copy).await.unwrap(), b"short", "an existing copy is replaced");
    assert_eq!(disk.copy(&dir.join("none"), &copy).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.read(&copy).await.unwrap(), b"short", "a failed copy changes nothing");
}

async fn links(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(&dir.join("real"), 0o755).await.unwrap();
    disk.write_atomic(&dir.join("real/file"), b"text", 0o600).await.unwrap();
    disk.symlink(Path::new("real"), &dir.join("link")).await.unwrap();
    assert_eq!(disk.kind(&dir.join("link")).await.unwrap(), Some(Kind::Symlink));
    assert_eq!(disk.read(&dir.join("link/file")).await.unwrap(), b"text");
    assert_eq!(disk.list(&dir.join("link")).await.unwrap(), ["file"]);
    assert_eq!(
        disk.symlink(Path::new("x"), &dir.join("link")).await.unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    disk.symlink(Path::new("loop"), &dir.join("loop")).await.unwrap();
    assert!(disk.read(&dir.join("loop")).await.is_err());
    disk.remove_file(&dir.join("link")).await.unwrap();
    assert_eq!(disk.read(&dir.join("real/file")).await.unwrap(), b"text", "only the link went");
}

/// What a crash in the middle of a write leaves is neither seen nor in the way.
async fn durable_names(world: &World) {
    use std::os::unix::fs::PermissionsExt;
    let (disk, dir) = (world.host.disk.as_ref(), world.dir("crashed"));
    std::fs::write(dir.join(".bowline-new-state"), "half").unwrap();
    assert!(disk.list(&dir).await.unwrap().is_empty());
    assert_eq!(disk.unfinished(&dir).await.unwrap(), [".bowline-new-state"], "except by who looks for it");
    disk.write_atomic(&dir.join("state"), b"whole", 0o640).await.unwrap();
    assert!(disk.unfinished(&dir).await.unwrap().is_empty());
    let mode = std::fs::metadata(dir.join("state")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    std::fs::write(dir.join(".bowline-new-state"), "half").unwrap();
    disk.remove_file(&dir.join("state")).await.unwrap();
    disk.remove_dir(&dir).await.unwrap();

    let sparse = world.path("holes");
    disk.create_sparse(&sparse, 1 << 30).await.unwrap();
    disk.copy(&sparse, &world.path("holes2")).await.unwrap();
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(world.path("holes2")).unwrap());
    assert_eq!(blocks, 0, "holes stay holes");

    let writers = (0..20).map(|i| {
        let (disk, path) = (world.host.disk.clone(), world.path("contended"));
        tokio::spawn(async move { disk.write_atomic(&path, &vec![i; 4096], 0o600).await })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap().unwrap();
    }
    let content = disk.read(&world.path("contended")).await.unwrap();
    assert!(content.len() == 4096 && content.iter().all(|byte| *byte == content[0]), "writes never mix");
}
