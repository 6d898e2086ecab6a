//! Allocated and changed blocks of files, on both disks; sharing, and copies beside a loop device, on the real one.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bowline_host::Disk;
use bowline_host::disk::Extent;
use bowline_host::fake;
use rustix::fs::{Advice, fadvise};

use crate::world::{World, program};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

fn extent(offset: u64, length: u64) -> Extent {
    Extent { offset, length }
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

#[tokio::test]
async fn real_blocks() {
    let world = World::new();
    suite(world.host.disk.as_ref(), &world.dir("blocks"), &write_at).await;
    for fs_type in ["xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        suite(world.host.disk.as_ref(), &target, &write_at).await;
        world.host.kernel.unmount(&target).await.unwrap();
        world.detach(&device).await;
    }
}

/// A filesystem that tells no addresses.
#[tokio::test]
async fn blocks_in_memory() {
    let world = World::new();
    let target = world.dir("memory");
    assert!(program("mount", &["-t", "tmpfs", "none", target.to_str().unwrap()]).0);
    suite(world.host.disk.as_ref(), &target, &write_at).await;
    world.host.kernel.unmount(&target).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fake_blocks() {
    let (host, fake) = fake::host(1);
    let dir = Path::new("/var/lib/blocks");
    host.disk.create_dir_all(dir, 0o755).await.unwrap();
    let write = |path: &Path, offset: u64, bytes: &[u8]| fake.write_device(path, offset, bytes).unwrap();
    suite(host.disk.as_ref(), dir, &write).await;
}

async fn suite(disk: &dyn Disk, dir: &Path, write: &(dyn Fn(&Path, u64, &[u8]) + Sync)) {
    allocated(disk, dir, write).await;
    changed(disk, dir, write).await;
}

async fn allocated(disk: &dyn Disk, dir: &Path, write: &(dyn Fn(&Path, u64, &[u8]) + Sync)) {
    let image = dir.join("sparse");
    disk.create_sparse(&image, 64 * MIB).await.unwrap();
    assert_eq!(disk.allocated(&image).await.unwrap(), 0);
    assert!(disk.extents(&image, 0, 10).await.unwrap().is_empty());
    for offset in [MIB, 2 * MIB, 2 * MIB + BLOCK, 64 * MIB - BLOCK] {
        write(&image, offset, &[7; BLOCK as usize]);
    }
    let all = [extent(MIB, BLOCK), extent(2 * MIB, 2 * BLOCK), extent(64 * MIB - BLOCK, BLOCK)];
    assert_eq!(disk.extents(&image, 0, 10).await.unwrap(), all);
    assert_eq!(disk.extents(&image, 0, 2).await.unwrap(), all[..2]);
    assert!(disk.extents(&image, 0, 0).await.unwrap().is_empty());
    assert_eq!(disk.extents(&image, MIB + BLOCK, 10).await.unwrap(), all[1..]);
    let inside = disk.extents(&image, 2 * MIB + BLOCK, 1).await.unwrap();
    assert_eq!(inside, [extent(2 * MIB + BLOCK, BLOCK)]);
    assert!(disk.extents(&image, 64 * MIB, 10).await.unwrap().is_empty());
    let occupied = disk.allocated(&image).await.unwrap();
    assert!((4 * BLOCK..MIB).contains(&occupied), "{occupied}");
    assert!(disk.extents(dir, 0, 1).await.is_err() && disk.allocated(&dir.join("none")).await.is_err());
}

async fn changed(disk: &dyn Disk, dir: &Path, write: &(dyn Fn(&Path, u64, &[u8]) + Sync)) {
    let (base, target) = (dir.join("base"), dir.join("target"));
    disk.create_sparse(&base, 16 * MIB).await.unwrap();
    write(&base, 0, &[1; 2 * BLOCK as usize]);
    write(&base, 4 * MIB, &[2; BLOCK as usize]);
    write(&base, 8 * MIB, &[3; BLOCK as usize]);
    disk.copy(&base, &target).await.unwrap();
    let differ = |block, from, max| {
        let (base, target) = (base.clone(), target.clone());
        async move { disk.changed(&base, &target, block, from, max).await.unwrap() }
    };
    assert!(differ(BLOCK, 0, 10).await.is_empty(), "a copy is equal");
    write(&target, BLOCK + 17, b"x");
    write(&target, 4 * MIB, &[2; BLOCK as usize]);
    write(&target, 6 * MIB, &[0; BLOCK as usize]);
    write(&target, 8 * MIB, &[0; BLOCK as usize]);
    write(&target, 9 * MIB, b"new");
    let all = [extent(BLOCK, BLOCK), extent(8 * MIB, BLOCK), extent(9 * MIB, BLOCK)];
    assert_eq!(differ(BLOCK, 0, 10).await, all, "the same bytes and written zeros do not count");
    assert_eq!(differ(BLOCK, 0, 1).await, all[..1]);
    assert_eq!(differ(BLOCK, 2 * BLOCK, 10).await, all[1..]);
    assert_eq!(differ(BLOCK, 8 * MIB, 1).await, all[1..2]);
    assert_eq!(differ(MIB, 0, 10).await, [extent(0, MIB), extent(8 * MIB, 2 * MIB)]);
    assert_eq!(differ(MIB, 9 * MIB, 10).await, [extent(9 * MIB, MIB)]);
    assert!(differ(BLOCK, 16 * MIB, 10).await.is_empty());
    assert!(disk.changed(&base, &target, 0, 0, 10).await.is_err(), "no unit");

    // Growing alone changes nothing; what is then written behind the end of the other file does.
    disk.create_sparse(&target, 32 * MIB).await.unwrap();
    assert_eq!(differ(BLOCK, 0, 10).await, all);
    write(&target, 20 * MIB, b"behind");
    assert_eq!(differ(BLOCK, 10 * MIB, 10).await, [extent(20 * MIB, BLOCK)]);
    let backwards = disk.changed(&target, &base, BLOCK, 10 * MIB, 10).await.unwrap();
    assert_eq!(backwards, [extent(20 * MIB, BLOCK)]);
}

/// Pages of a file that are in memory.
fn cached(path: &Path) -> u64 {
    let (_, said) = program("fincore", &["-n", "-o", "PAGES", path.to_str().unwrap()]);
    said.trim().parse().unwrap_or_else(|_| panic!("fincore said `{said}`"))
}

fn drop_cache(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

#[tokio::test]
async fn shared_blocks_are_neither_copied_nor_read() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    for fs_type in ["xfs", "btrfs"] {
        let (device, pool) = world.mounted(fs_type, fs_type).await;
        let (base, clone): (PathBuf, PathBuf) = (pool.join("base"), pool.join("clone"));
        let content: Vec<u8> = (0..64 * MIB).map(|at| (at / BLOCK) as u8 | 1).collect();
        std::fs::write(&base, content).unwrap();
        std::fs::File::open(&base).unwrap().sync_all().unwrap();
        let before = disk.space(&pool).await.unwrap().available;
        disk.copy(&base, &clone).await.unwrap();
        let used = before.saturating_sub(disk.space(&pool).await.unwrap().available);
        assert!(used < 16 * MIB, "{fs_type}: the copy took {used} bytes");
        write_at(&clone, 40 * MIB + 5, b"differs");
        drop_cache(&base);
        drop_cache(&clone);
        let changed = disk.changed(&base, &clone, BLOCK, 0, 10).await.unwrap();
        assert_eq!(changed, [extent(40 * MIB, BLOCK)], "{fs_type}");
        let pages = cached(&base) + cached(&clone);
        assert!(pages < 2 * 2 * MIB / BLOCK, "{fs_type}: {pages} pages were read");
        kernel.unmount(&pool).await.unwrap();
        world.detach(&device).await;
    }
}

/// Both ways of attaching, for a loop device may or may not go past the page cache of its image.
#[tokio::test]
async fn a_copy_has_what_a_loop_device_has_written() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    let device = world.device("image", 8).await;
    // The image is in the page cache as it was before.
    assert!(std::fs::read(world.path("image")).unwrap().iter().all(|byte| *byte == 0));
    for (round, direct) in [(1, "on"), (2, "off"), (3, "on")] {
        let device = device.to_str().unwrap();
        assert!(program("losetup", &[&format!("--direct-io={direct}"), device]).0);
        let bytes = [round; BLOCK as usize];
        write_at(Path::new(device), MIB, &bytes);
        kernel.flush(Path::new(device)).await.unwrap();
        disk.copy(&world.path("image"), &world.path("copy")).await.unwrap();
        let copy = std::fs::read(world.path("copy")).unwrap();
        assert_eq!(copy[MIB as usize..][..BLOCK as usize], bytes, "direct I/O {direct}");
        assert_eq!(disk.allocated(&world.path("copy")).await.unwrap(), BLOCK, "holes stay holes");
    }
    kernel.loop_detach(&device).await.unwrap();
}
